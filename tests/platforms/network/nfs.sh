# The kernel's NFS server, and its export mounted twice, as by two hosts (nosharecache); and once softly.
for module in nfs nfsv3 nfsv4 nfsd lockd; do modprobe $module; done
# Without delegations: while the server, which is this machine as well, calls one back, an open here answers EAGAIN.
echo 0 >/proc/sys/fs/leases-enable
mkdir -p /run/rpcbind /run/sendsigs.omit.d /run/nfs /var/lib/nfs/{sm,v4recovery}
chown _rpc /run/rpcbind
mount -t nfsd nfsd /proc/fs/nfsd
echo '/exp 127.0.0.1(rw,no_root_squash,insecure,no_subtree_check,fsid=0)' >/etc/exports
rpcbind
for _ in {1..50}; do rpcinfo -p 127.0.0.1 >/dev/null 2>&1 && break; sleep 0.1; done
rpc.statd --no-notify
# Nobody had a lock before: no need to wait for those who would reclaim one.
echo 1 >/proc/sys/fs/nfs/nlm_grace_period
echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 10 >/proc/fs/nfsd/nfsv4leasetime
rpc.nfsd 4
echo Y >/proc/fs/nfsd/v4_end_grace
rpc.mountd
exportfs -ra
for at in one two soft; do
  softly=
  [[ $at == soft ]] && softly=,soft,timeo=10,retrans=1
  timeout 60 mount -t nfs -o "$MOUNT,nosharecache$softly" "127.0.0.1:$EXPORT" /m/$at
done
# lockd's first second is a time of grace.
sleep 2
