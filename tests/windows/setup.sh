#!/bin/bash
# setup.sh PREFIX: makes a Wine prefix (Debian 12, wine64 8.0) in which deno.exe 2.9 and bun.exe 1.4 run. About 10 s.
# Needs python3 and, from Debian, wine64.
set -euo pipefail
prefix=$(realpath -m "$1")
export WINEPREFIX=$prefix WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
wine=/usr/lib/wine/wine64 server=/usr/lib/wine/wineserver64
kernelbase=/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/kernelbase.dll
rm -rf "$prefix"
mkdir -p "$(dirname "$prefix")"
$wine wineboot -i </dev/null >/dev/null 2>&1
$wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f </dev/null >/dev/null 2>&1
$server -k || true
$server -w || true
python3 - "$kernelbase" "$prefix/drive_c/windows/system32" <<'PY'
import os, re, struct, sys
source, folder = sys.argv[1:]
def put(name, data):
    path = os.path.join(folder, name)
    if os.path.lexists(path): os.unlink(path)
    open(path, 'wb').write(data)
# 1. kernelbase.dll: Wine 8 exports VirtualAlloc2 but lacks placeholders, and V8 dies of it ("SegmentedTable::
#    InitializeTable"). The export becomes VirtualAlloc1, which keeps the table of names sorted; and the mark of a built-in
#    goes, so that the copy is loaded as a native DLL.
data = bytearray(open(source, 'rb').read())
found = list(re.finditer(rb'\0VirtualAlloc\0VirtualAlloc2\0', bytes(data)))
assert found
for match in found: data[match.end() - 2] = ord('1')
assert data[0x40:0x50] == b'Wine builtin DLL'
data[0x40:0x50] = bytes(16)
put('kernelbase.dll', data)
# 2. bcryptprimitives.dll, which Wine 8 lacks: one forwarder, ProcessPrng to advapi32.SystemFunction036 (RtlGenRandom).
R = 0x1000; o = R + 40 + 10; s = b'bcryptprimitives.dll\0'; en = o + len(s); s += b'ProcessPrng\0'; fw = o + len(s); s += b'advapi32.SystemFunction036\0'
e = struct.pack('<IIHHIIIIIII', 0, 0, 0, 0, o, 1, 1, 1, R + 40, R + 44, R + 48) + struct.pack('<IIH', fw, en, 0) + s; raw = e + bytes(-len(e) % 512)
opt = struct.pack('<HBBIIIII', 0x20b, 14, 0, 0, len(raw), 0, 0, R) + struct.pack('<QIIHHHHHHIIIIHHQQQQII', 0x180000000, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x2000, 0x200, 0, 3, 0x160, 1 << 20, 4096, 1 << 20, 4096, 0, 16) + struct.pack('<II', R, len(e)) + bytes(120)
h = b'MZ' + bytes(58) + struct.pack('<I', 64) + b'PE\0\0' + struct.pack('<HHIIIHH', 0x8664, 1, 0, 0, 0, 240, 0x2022) + opt + struct.pack('<8sIIIIIIHHI', b'.edata', len(e), R, len(raw), 512, 0, 0, 0, 0, 0x40000040)
put('bcryptprimitives.dll', h + bytes(512 - len(h)) + raw)
PY
