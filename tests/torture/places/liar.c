/*
 * liar HOW FROM AT: the folder FROM, at AT, by FUSE. HOW is what it does with flock(2):
 * "honest" passes it on, "lies" answers success and does nothing, ENOLCK, ENOSYS and so on answer that.
 * "named" goes by the file: ENOLCK.lock is answered with that, until there is an ENOLCK.lock.honest beside it.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char from[PATH_MAX];
static const char *how;

struct path { char at[2 * PATH_MAX]; };

static struct path below(const char *name) {
  struct path path;
  snprintf(path.at, sizeof path.at, "%s%s", from, name);
  return path;
}

static int result(int status) { return status < 0 ? -errno : 0; }

static int get_attributes(const char *name, struct stat *found, struct fuse_file_info *file) {
  return result(file ? fstat(file->fh, found) : lstat(below(name).at, found));
}

static int list(const char *name, void *buffer, fuse_fill_dir_t add, off_t offset, struct fuse_file_info *file,
                enum fuse_readdir_flags flags) {
  (void)offset, (void)file, (void)flags;
  DIR *folder = opendir(below(name).at);
  if (!folder) return -errno;
  for (struct dirent *entry; (entry = readdir(folder));) add(buffer, entry->d_name, NULL, 0, 0);
  closedir(folder);
  return 0;
}

static int open_file(const char *name, struct fuse_file_info *file) {
  int fd = open(below(name).at, file->flags & ~O_APPEND);
  if (fd < 0) return -errno;
  file->fh = fd;
  return 0;
}

static int create_file(const char *name, mode_t mode, struct fuse_file_info *file) {
  int fd = open(below(name).at, file->flags & ~O_APPEND, mode);
  if (fd < 0) return -errno;
  file->fh = fd;
  return 0;
}

static int close_file(const char *name, struct fuse_file_info *file) { (void)name; return result(close(file->fh)); }

static int read_file(const char *name, char *bytes, size_t size, off_t offset, struct fuse_file_info *file) {
  (void)name;
  ssize_t count = pread(file->fh, bytes, size, offset);
  return count < 0 ? -errno : (int)count;
}

static int write_file(const char *name, const char *bytes, size_t size, off_t offset, struct fuse_file_info *file) {
  (void)name;
  ssize_t count = pwrite(file->fh, bytes, size, offset);
  return count < 0 ? -errno : (int)count;
}

static int cut(const char *name, off_t size, struct fuse_file_info *file) {
  return result(file ? ftruncate(file->fh, size) : truncate(below(name).at, size));
}

static int remove_file(const char *name) { return result(unlink(below(name).at)); }
static int link_file(const char *old, const char *new) { return result(link(below(old).at, below(new).at)); }
static int rename_file(const char *old, const char *new, unsigned flags) {
  return result(renameat2(AT_FDCWD, below(old).at, AT_FDCWD, below(new).at, flags));
}
static int set_owner(const char *name, uid_t uid, gid_t gid, struct fuse_file_info *file) {
  (void)file;
  return result(lchown(below(name).at, uid, gid));
}
static int set_mode(const char *name, mode_t mode, struct fuse_file_info *file) {
  (void)file;
  return result(chmod(below(name).at, mode));
}
static int set_times(const char *name, const struct timespec times[2], struct fuse_file_info *file) {
  (void)file;
  return result(utimensat(AT_FDCWD, below(name).at, times, AT_SYMLINK_NOFOLLOW));
}

/* By the C library's names; EIO for what it does not know. */
static int error(const char *wanted) {
  for (int number = 1; number < 134; number++) {
    const char *known = strerrorname_np(number);
    if (known && strcmp(wanted, known) == 0) return -number;
  }
  return -EIO;
}

/* What the first part of a file's name stands for, unless it has become honest; 0 for nothing. */
static int named(const char *name) {
  struct path honest = below(name);
  strcat(honest.at, ".honest"); /* FROM and the name leave room */
  const char *last = strrchr(name, '/') + 1;
  char word[32] = "";
  if (access(honest.at, F_OK) == 0 || strcspn(last, ".") >= sizeof word) return 0;
  strncpy(word, last, strcspn(last, "."));
  return word[0] == 'E' ? error(word) : 0;
}

static int lock(const char *name, struct fuse_file_info *file, int operation) {
  int failure = strcmp(how, "named") == 0 ? named(name) : 0;
  if (strcmp(how, "lies") == 0 || failure != 0) return failure;
  if (strcmp(how, "honest") == 0 || strcmp(how, "named") == 0) return result(flock(file->fh, operation));
  return error(how);
}

int main(int count, char **values) {
  if (count != 4 || !realpath(values[2], from)) return 2;
  how = values[1];
  char *arguments[] = {values[0], values[3], NULL};
  struct fuse_operations operations = {
    .getattr = get_attributes, .readdir = list, .open = open_file, .create = create_file, .release = close_file,
    .read = read_file, .write = write_file, .truncate = cut, .unlink = remove_file, .link = link_file,
    .rename = rename_file, .utimens = set_times, .chown = set_owner, .chmod = set_mode, .flock = lock,
  };
  return fuse_main(2, arguments, &operations, NULL);
}
