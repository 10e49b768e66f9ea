#!/bin/bash
# The init of the guest, which has User-Mode Linux's kernel: the host's files below, read-only, and memory above them.
# HOLDFAST_GUEST comes from the kernel's command line: a folder of the host's that both write to, with what to set
# (settings.sh) and, in the end, what came of it.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root NO_COLOR=1
here=$(dirname "$(readlink -f "$0")")
root=/mnt/root modules=/usr/lib/uml/modules

mount -t proc proc /proc
mount -t tmpfs -o size=1g tmpfs /mnt
mkdir -p /mnt/{upper,work,root} /mnt/modules/lib
# The kernel starts modprobe for us, and it is to look where Debian keeps this kernel's modules.
ln -s $modules /mnt/modules/lib/modules
printf '#!/bin/sh\nexec /usr/sbin/modprobe -d /mnt/modules "$@"\n' >/mnt/modprobe
chmod +x /mnt/modprobe
echo /mnt/modprobe >/proc/sys/kernel/modprobe
modprobe -d /mnt/modules overlay
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work $root || echo "no overlay"
mkdir -p $root/lib/modules $root/exp $root/m/{one,two,soft}
mount --bind $modules $root/lib/modules
mount -t proc proc $root/proc
mount -t sysfs sys $root/sys
mount -t devtmpfs dev $root/dev
mkdir -p $root/dev/{shm,pts}
mount -t devpts devpts $root/dev/pts
for each in dev/shm run exp; do mount -t tmpfs tmpfs $root/$each; done
chmod 1777 $root/dev/shm
chmod 777 $root/exp
mkdir -p "$root/$HOLDFAST_GUEST"
mount -t hostfs none -o "$HOLDFAST_GUEST" "$root/$HOLDFAST_GUEST"
ip link set lo up
hostname guest
echo "127.0.0.1 localhost guest" >$root/etc/hosts
echo "the guest has $(uname -r), started in $(cut -d' ' -f1 /proc/uptime) s"

# -a: what it sets is for all that is started. -e: without a server and its mounts there is nothing to do.
chroot $root /bin/bash -aec '. "$1/settings.sh"; . "$2/$SERVER.sh"; exec $GUEST "$2/guest.ts" "$1"' \
  guest "$HOLDFAST_GUEST" "$here"
echo "the guest ends with $?"
sync
echo o >/proc/sysrq-trigger
sleep 10
