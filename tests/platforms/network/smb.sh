# Samba, and its share mounted twice, as by two hosts (nosharesock).
for module in hmac md4 md5 sha256_generic sha512_generic cmac aes_generic ccm gcm ecb nls_utf8 arc4 des_generic cifs; do
  modprobe $module 2>/dev/null || true # which of them are built in differs
done
state=/run/samba
mkdir -p $state
cat >/tmp/smb.conf <<X
[global]
workgroup = T
server role = standalone server
interfaces = lo
bind interfaces only = yes
map to guest = Bad User
guest account = root
smb ports = 445
log file = /tmp/smb.log
lock directory = $state
pid directory = $state
state directory = $state
cache directory = $state
private dir = $state
disable netbios = yes
load printers = no
[s]
path = /exp
guest ok = yes
read only = no
force user = root
X
smbd -D -s /tmp/smb.conf
for _ in {1..50}; do [[ -e $state/smbd.pid ]] && break; sleep 0.1; done
sleep 1
for at in one two; do
  timeout 60 mount -t cifs -o "guest,uid=0,$MOUNT,nosharesock" //127.0.0.1/s /m/$at
done
