# diod, and its export mounted twice.
for module in 9p 9pnet_fd; do modprobe $module; done
diod -f -n -e /exp -l 127.0.0.1:5640 -U root -S >/tmp/diod.log 2>&1 &
sleep 1
for at in one two; do
  timeout 60 mount -t 9p -o "trans=tcp,port=5640,aname=/exp,uname=root,access=any,$MOUNT" 127.0.0.1 /m/$at
done
