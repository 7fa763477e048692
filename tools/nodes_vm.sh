#!/usr/bin/env bash
# Runs one test program in an emulated machine of two CPUs, each with a memory node of its own: Debian's kernel, and a
# memory disk of nothing but busybox and the program. Slow (no hardware helps), so for where memory lies, not for speed.
#   tools/nodes_vm.sh FOLDER PROGRAM [ARGUMENT…]
# The kernel is kept in FOLDER. Exit status: the program's.
set -euo pipefail
folder=$1 program=$2
shift 2

if ! compgen -G "$folder/kernel/boot/vmlinuz-*" > /dev/null; then
  rm -rf "$folder/kernel" && mkdir -p "$folder/kernel"
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)/\1/p' | head -n 1)
  (cd "$folder/kernel" && apt-get -qq -o APT::Sandbox::User=root download "$package" && dpkg -x ./*.deb . && rm ./*.deb)
fi

disk=$folder/disk
rm -rf "$disk" && mkdir -p "$disk"/{bin,proc,sys,dev,tmp}
cp "$(command -v busybox)" "$disk/bin/busybox"
cp "$program" "$disk/bin/program"
while read -r library; do
  mkdir -p "$disk${library%/*}"
  cp -L "$library" "$disk$library"
done < <(ldd "$program" | grep -o '/[^ ]*')
cat > "$disk/init" << END
#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
/bin/program $(printf '%q ' "$@")
echo "exit status \$?"
/bin/busybox poweroff -f
END
chmod +x "$disk/init"
(cd "$disk" && find . | cpio --quiet -o -H newc | gzip -1) > "$folder/disk.gz"

timeout 300 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 4G -smp 2,sockets=2,cores=1,threads=1 \
  -object memory-backend-ram,id=m0,size=2G -object memory-backend-ram,id=m1,size=2G \
  -numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1 -numa dist,src=0,dst=1,val=21 \
  -kernel "$folder"/kernel/boot/vmlinuz-* -initrd "$folder/disk.gz" -append "console=ttyS0 quiet panic=-1" \
  -display none -monitor none -serial stdio -no-reboot < /dev/null | tr -d '\r' | tee "$folder/log"
status=$(sed -n 's/^exit status //p' "$folder/log")
exit "${status:-1}"
