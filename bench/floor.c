/*
 * The floor: the system calls that holdfast makes in Bun, and nothing else.
 * bench/calls.ts compares the two sequences with strace, and fails where they
 * differ. One function a phase: change them as src/ changes.
 *
 *   floor KIND
 *
 * It is spoken to as worker.mjs is: a command a line, a line of JSON back.
 * KIND is "floor", the above; or "flock": open, flock, close, the least that
 * anybody has to do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char path[4096], pid_path[4104];
static char record[4097];
static size_t record_length;
static int is_floor;

static void fail(const char *what) {
  fprintf(stderr, "floor: %s %s: %s\n", what, path, strerror(errno));
  exit(1);
}

/* ---- the phases: each as holdfast's ---- */

static void look_for_pid_file(void) {
  struct statx st;
  if (statx(AT_FDCWD, pid_path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) == 0) fail("somebody's PID file beside");
}

static int open_lock(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  if (fd < 0) fail("open");
  struct statx st;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) != 0) fail("fstat");
  return fd;
}

static int take(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return 1;
  if (errno != EWOULDBLOCK) fail("flock");
  return 0;
}

static void look_at_path(void) {
  struct statx st;
  if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) != 0) fail("lstat");
}

static void write_record(int fd) {
  char old[4097];
  if (pread(fd, old, sizeof old, 0) < 0) fail("pread");
  if (pwrite(fd, record, record_length, 0) < 0) fail("pwrite");
}

static void take_record_back(int fd) {
  char old[4097];
  look_at_path();
  if (pread(fd, old, sizeof old, 0) < 0) fail("pread");
  if (ftruncate(fd, 0) != 0) fail("ftruncate");
}

/* Is it a program? While one is open for writing, the kernel starts it for no process (ETXTBSY). */
static void look_for_program(void) {
  struct statx st;
  if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) != 0 && errno != ENOENT) fail("lstat");
}

/* ---- what they add up to ---- */

/* The open file of a Lock that is used again, where that keeps it. */
static int kept = -1;

/* -1: held by another. `again`: by a Lock that has been used before. */
static int acquire(int again) {
  (void)again; /* today both are the same */
  look_for_pid_file();
  look_for_program();
  int fd = open_lock();
  if (!take(fd)) {
    close(fd);
    return -1;
  }
  look_at_path();
  write_record(fd);
  look_for_pid_file();
  return fd;
}

static void release(int fd, int again) {
  (void)again;
  take_record_back(fd);
  close(fd);
}

/* The least: it leaves no record, and does not see that its file was replaced. */
static int open_and_take(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) fail("open");
  if (take(fd)) return fd;
  close(fd);
  return -1;
}

/* ---- measuring ---- */

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000.0 + t.tv_nsec / 1e6;
}

static void set_path(const char *to) {
  snprintf(path, sizeof path, "%s", to);
  snprintf(pid_path, sizeof pid_path, "%s.pid", to);
}

/* One deed of a form. */
static void once(const char *form) {
  int again = strcmp(form, "again") == 0;
  if (strcmp(form, "refused") == 0) { /* what a refused try cannot do without */
    if (open_and_take() >= 0) fail("free:");
  } else if (strcmp(form, "refused-again") == 0) {
    if (kept < 0) kept = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (take(kept)) fail("free:");
  } else if (!is_floor) {
    int fd = open_and_take();
    if (fd < 0) fail("held:");
    close(fd);
  } else {
    int fd = acquire(again);
    if (fd < 0) fail("held:");
    release(fd, again);
  }
}

static void batch(const char *form, double milliseconds) {
  long long start = now(), before = start, end = start + (long long)(milliseconds * 1e6);
  int n = 0;
  putchar('[');
  while (before < end || n < 1) {
    once(form);
    long long after = now();
    printf("%s%.2f", n++ ? "," : "", (after - before) / 1e3);
    before = now();
  }
  puts("]");
}

/* So many deeds with a mark before each, for strace. */
static void marked(const char *form, int n) {
  char mark[128];
  snprintf(mark, sizeof mark, "/holdfast/mark/%s", form);
  for (int i = 0; i < n; i++) {
    access(mark, F_OK);
    once(form);
  }
  access("/holdfast/mark/end", F_OK);
  puts("[]");
}

static void count(const char *counter, double from, double until) {
  int times = 0;
  while (wall() < from) usleep(1000);
  while (wall() < until) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) fail("open");
    if (flock(fd, LOCK_EX) != 0) fail("flock");
    if (wall() >= until) { /* it came too late to count */
      close(fd);
      break;
    }
    char text[32] = "";
    int file = open(counter, O_RDWR | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) fail("counter beside");
    int length = snprintf(text, sizeof text, "%d", atoi(text) + 1);
    if (pwrite(file, text, length, 0) < 0) fail("counter beside");
    close(file);
    close(fd);
    times++;
  }
  printf("{\"times\":%d,\"failures\":0}\n", times);
}

int main(int argc, char **argv) {
  is_floor = argc < 2 || strcmp(argv[1], "flock") != 0;
  /* As long as ours is here. */
  record_length = snprintf(record, sizeof record, "%d\n%0300d\n", getpid(), 0);
  setvbuf(stdout, NULL, _IOFBF, 1 << 20);
  puts("\"ready\"");
  fflush(stdout);
  char line[16384], word[64], a[4096], b[4096];
  int held = -1;
  while (fgets(line, sizeof line, stdin)) {
    double x = 0, y = 0;
    if (sscanf(line, "batch %63s %lf %4095s", word, &x, a) == 3) {
      set_path(a);
      batch(word, x);
    } else if (sscanf(line, "marked %63s %lf %4095s", word, &x, a) == 3) {
      set_path(a);
      marked(word, (int)x);
    } else if (sscanf(line, "acquire %4095s", a) == 1) {
      set_path(a);
      held = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (held < 0 || flock(held, LOCK_EX) != 0) fail("acquire");
      printf("%.4f\n", wall());
    } else if (strncmp(line, "release", 7) == 0) {
      printf("%.4f\n", wall());
      close(held);
    } else if (sscanf(line, "count %4095s %4095s %lf %lf", a, b, &x, &y) == 4) {
      set_path(a);
      count(b, x, y);
    } else {
      fprintf(stderr, "floor: what is %s", line);
      return 1;
    }
    fflush(stdout);
  }
  return 0;
}
