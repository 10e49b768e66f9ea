/*
 * What Debian's libstdc++.so.6 and libgcc_s.so.1, built for glibc, need and musl lacks, so that Bun for musl
 * runs here. Linked as ld-linux-x86-64.so.2, which they need anyway. The C library under test is the real musl.
 */
#define _GNU_SOURCE
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

char __libc_single_threaded = 0;
struct { unsigned vendor, type, subtype, features[1]; } __cpu_model;

int __cpu_indicator_init(void) { return 0; }

uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != sizeof number);
  return number;
}

size_t __strftime_l(char *text, size_t size, const char *format, const struct tm *time, locale_t locale) {
  return strftime_l(text, size, format, time, locale);
}

struct destructor { void (*function)(void *); void *object; struct destructor *next; };
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void destroy(void *first) {
  for (struct destructor *each = first, *next; each; each = next) {
    next = each->next;
    each->function(each->object);
    free(each);
  }
}

static void make_key(void) { pthread_key_create(&key, destroy); }

int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *library) {
  (void)library;
  struct destructor *made = malloc(sizeof *made);
  if (!made) return -1;
  pthread_once(&once, make_key);
  *made = (struct destructor){function, object, pthread_getspecific(key)};
  return pthread_setspecific(key, made);
}

/* glibc's <dlfcn.h>: struct dl_find_object, by which libgcc finds the unwind table of an address. */
struct found { unsigned long long flags; void *start, *end; struct link_map *map; void *table; unsigned long long rest[7]; };
struct question { uintptr_t address; struct found *answer; int answered; };

static int look(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct question *question = data;
  uintptr_t low = UINTPTR_MAX, high = 0;
  void *table = NULL;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    uintptr_t start = object->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) table = (void *)start;
    if (header->p_type != PT_LOAD) continue;
    if (start < low) low = start;
    if (end > high) high = end;
    if (question->address >= start && question->address < end) inside = 1;
  }
  if (!inside || !table) return 0;
  memset(question->answer, 0, sizeof *question->answer);
  question->answer->start = (void *)low;
  question->answer->end = (void *)high;
  question->answer->table = table;
  return question->answered = 1;
}

int _dl_find_object(void *address, struct found *answer) {
  struct question question = {(uintptr_t)address, answer, 0};
  dl_iterate_phdr(look, &question);
  return question.answered ? 0 : -1;
}
