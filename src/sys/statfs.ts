/** Which file system it is, by the number that statfs(2) of Linux gives it. */

/**
 * Those that are not local: <linux/magic.h>, and for what is not part of Linux
 * the list of coreutils (src/stat.c), which marks them "remote". Not what it
 * marks so because inotify does not work there (aufs, overlayfs: the upper
 * directory must be on a local disk).
 */
export const NOT_LOCAL: Record<number, string> = {
  0x65735546: "fuse", // FUSE_SUPER_MAGIC; virtiofs too
  0x6969: "nfs", // NFS_SUPER_MAGIC
  0xfe534d42: "cifs", // SMB2_SUPER_MAGIC
  0xff534d42: "cifs", // CIFS_SUPER_MAGIC
  0x517b: "smbfs", // SMB_SUPER_MAGIC
  0x01021997: "9p", // V9FS_MAGIC
  0x00c36400: "ceph", // CEPH_SUPER_MAGIC
  0x5346414f: "afs", // AFS_SUPER_MAGIC
  0x6b414653: "afs", // AFS_FS_MAGIC
  0x73757245: "coda", // CODA_SUPER_MAGIC
  0x786f4256: "vboxsf", // VBOXSF_SUPER_MAGIC
  0x7461636f: "ocfs2", // OCFS2_SUPER_MAGIC
  0x00c0ffee: "hostfs", // HOSTFS_SUPER_MAGIC: User-Mode Linux
  0x20030528: "orangefs", // ORANGEFS_SUPER_MAGIC, fs/orangefs/protocol.h
  0x01161970: "gfs2", // coreutils, as those that follow
  0x0bd00bd0: "lustre",
  0x47504653: "gpfs",
  0x19830326: "beegfs", // S_MAGIC_FHGFS, its former name
  0xbacbacbc: "vmhgfs",
  0x7c7c6673: "prl_fs",
  0x61636673: "acfs",
  0x013111a8: "ibrix",
  0x564c: "ncpfs",
  0xaad7aaea: "panfs",
  0xbeefdead: "snfs",
  0xa501fcf5: "vxfs", // of one host, or of a cluster
};

/** Disks and memory of this machine, by <linux/magic.h> and the list of coreutils: none that lies on another. */
const LOCAL = new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0x01021994, // tmpfs
  0x858458f6, // ramfs
  0x794c7630, // overlayfs, whose upper directory must be on a local disk
  0x2fc12fc1, // zfs
  0xf2f52010, // f2fs
  0xca451a4e, // bcachefs
  0x4d44, // vfat
  0x2011bab0, // exfat
  0x5346544e, // ntfs
  0x7366746e, // ntfs3
  0x3153464a, // jfs
  0x52654973, // reiserfs
  0x3434, // nilfs
  0x24051905, // ubifs
  0x72b6, // jffs2
  0x482b, // hfsplus
  0x15013346, // udf
  0x73717368, // squashfs
  0xe0f5e1e2, // erofs
  0x9660, // iso9660
]);

/**
 * `"local"`, or its name as a mount has it; undefined for what is in neither list. `>>>`: some C libraries show the
 * number signed.
 */
export const fileSystemName = (type: number): string | undefined =>
  NOT_LOCAL[type >>> 0] ?? (LOCAL.has(type >>> 0) ? "local" : undefined);
