# A VNC server without an X server: a blue screen of 320 x 200 with a red square at 100,50
# that becomes green when it is clicked. What is typed goes into /tmp/typed.
import socket, struct, threading

W, H = 320, 200
colour = [b"\0\0\xc8\0"]  # blue, green, red, nothing

def read(c, n):
    data = b""
    while len(data) < n:
        more = c.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data

def serve(c):
    try:
        c.sendall(b"RFB 003.008\n")
        read(c, 12)
        c.sendall(b"\1\1")
        read(c, 1)
        c.sendall(b"\0\0\0\0")
        read(c, 1)
        c.sendall(struct.pack(">HH", W, H) + bytes([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]) + struct.pack(">I", 3) + b"box")
        while True:
            kind = read(c, 1)[0]
            if kind == 0:
                read(c, 19)
            elif kind == 2:
                _, n = struct.unpack(">BH", read(c, 3))
                read(c, 4 * n)
            elif kind == 3:
                _, x, y, w, h = struct.unpack(">BHHHH", read(c, 9))
                rows = []
                for row in range(y, y + h):
                    line = b"\xc8\0\0\0" * W
                    if 50 <= row < 90:
                        line = line[:400] + colour[0] * 40 + line[560:]
                    rows.append(line[4 * x:4 * (x + w)])
                c.sendall(struct.pack(">BBHHHHHi", 0, 0, 1, x, y, w, h, 0) + b"".join(rows))
            elif kind == 4:
                down, _, key = struct.unpack(">BHI", read(c, 7))
                if down:
                    with open("/tmp/typed", "a") as f:
                        f.write("%x\n" % key)
            elif kind == 5:
                buttons, x, y = struct.unpack(">BHH", read(c, 5))
                if buttons == 1 and 100 <= x < 140 and 50 <= y < 90:
                    colour[0] = b"\0\xc8\0\0"
            else:
                return
    except (EOFError, OSError):
        pass
    finally:
        c.close()

l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("127.0.0.1", 5900))
l.listen()
while True:
    threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
