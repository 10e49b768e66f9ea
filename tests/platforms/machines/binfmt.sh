# binfmt.sh COMMAND…: in a user and mount namespace of its own, where a program for arm64 runs like any other. All users
# are there, as in the machine itself: tests take another's files, and end another's processes.
set -eu
if [ "${1-}" != --inside ]; then
  # The map is written from outside: unshare(1)'s own -r has one user only.
  ( (
    until [ "$(readlink /proc/$$/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do sleep 0.01; done
    echo 0 0 65536 > /proc/$$/uid_map
    echo 0 0 65536 > /proc/$$/gid_map
  ) & )
  # Its rights are lost by an exec before there is a map, and had again by one after.
  exec unshare -Um sh -c 'until [ "$(id -u):$(id -g)" = 0:0 ]; do sleep 0.01; done; exec "$@"' sh sh "$0" --inside "$@"
fi
shift
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
# The head of an ELF file for aarch64, and which of its bits count. F: the emulator is opened now.
head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-aarch64:M::$head:$mask:$(command -v qemu-aarch64-static):FPO" > /proc/sys/fs/binfmt_misc/register
# Where every user finds its libraries: a cache in root's home is closed to others.
mount --bind "$QEMU_LD_PREFIX" /media
export QEMU_LD_PREFIX=/media
exec "$@"
