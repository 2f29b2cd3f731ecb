"""Submissions that want out: to files, to the network, to other processes."""

from .notebook import NOTHING, Notebook, Targets, code, spoilt

_TELL = "    raise RuntimeError(' '.join(str(one) for one in seen)[:100_000])\n"


@spoilt()
def reads_files(notebook: Notebook, targets: Targets) -> None:
    """reads a secret, other submissions and the system's files, and tells them in its error"""
    folder = str(targets.secret.parent)
    notebook.answer(
        code(f"""
        import glob, os
        def attend(x, w_q, w_k, w_v):
            seen = []
            for place in ({str(targets.secret)!r}, '/etc/shadow', '/proc/1/environ'):
                try:
                    seen.append(open(place).read())
                except OSError as error:
                    seen.append(error.errno)
            seen += glob.glob({folder + "/**/*"!r}, recursive=True)[:50]
    """)
        + _TELL
    )


@spoilt(rare=True)
def climbs_out(notebook: Notebook, targets: Targets) -> None:
    """reaches for files by way of /proc, of links and of its own open folders"""
    notebook.answer(
        code(f"""
        import os
        def attend(x, w_q, w_k, w_v):
            seen = []
            roots = [f'/proc/{{number}}/root' for number in [*range(1, 50), os.getppid()]]
            roots += [f'/proc/self/fd/{{number}}/../../../../../..' for number in range(64)]
            for root in roots:
                try:
                    seen.append(open(root + {str(targets.secret)!r}).read())
                except OSError:
                    pass
            try:
                os.symlink({str(targets.secret)!r}, '/tmp/link')
                seen.append(open('/tmp/link').read())
            except OSError:
                pass
    """)
        + _TELL
    )


@spoilt(loses=NOTHING)
def writes_files(notebook: Notebook, targets: Targets) -> None:
    """writes wherever it can: over a file of yours, over Python's packages, over the course"""
    notebook.insert(
        code(f"""
        import os, sys, torch, attnlab
        places = [{str(targets.canary)!r}, {str(targets.outside / "written")!r}]
        places += ['/etc/passwd', '/usr/written']
        places += [os.path.join(os.path.dirname(m.__file__), 'written.py') for m in (os, torch, attnlab)]
        for place in places:
            try:
                with open(place, 'a') as file:
                    file.write('written')
            except OSError:
                pass
        canary = {str(targets.canary)!r}
        for change in (lambda: os.remove(canary), lambda: os.chmod(canary, 0o777),
                       lambda: os.rename(canary, '/tmp/moved')):
            try:
                change()
            except OSError:
                pass
    """)
    )


@spoilt(loses=NOTHING)
def calls_home(notebook: Notebook, targets: Targets) -> None:
    """connects to this machine, to another one, and to sockets without an address"""
    notebook.insert(
        code(f"""
        import socket
        socket.setdefaulttimeout(0.5)
        for address in (('127.0.0.1', {targets.port}), ('::1', {targets.port}), ('192.0.2.1', 80)):
            try:
                socket.create_connection(address).sendall(b'hello')
            except OSError:
                pass
        try:
            socket.socket(socket.AF_UNIX).connect('\\0{targets.marker}')
        except OSError:
            pass
        try:
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {targets.port}))
        except OSError:
            pass
    """)
    )


@spoilt(loses=NOTHING)
def asks_the_shell(notebook: Notebook, targets: Targets) -> None:
    """uses the notebook's own magics and the shell"""
    canary, word = targets.canary, "written"
    notebook.insert(f"!echo {word} >> {canary}")
    notebook.insert(
        code(f"""
        %%bash
        echo {word} >> {canary}
        rm -rf {targets.outside}/*
    """)
    )
    notebook.insert(f"%%writefile {canary}\n{word}")
    notebook.insert(
        code(f"""
        %run {targets.secret}
        import os
        os.system('echo {word} >> {canary}')
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def becomes_root(notebook: Notebook, _: Targets) -> None:
    """asks for rights, for namespaces of its own and for the memory of other processes"""
    notebook.insert(
        code("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        for change in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.chroot('/tmp'),
                       lambda: libc.unshare(0x10000000), lambda: libc.unshare(0x00020000),
                       lambda: libc.mount(b'none', b'/tmp', b'tmpfs', 0, None),
                       lambda: libc.ptrace(16, os.getppid(), 0, 0), lambda: libc.ptrace(16, 1, 0, 0),
                       lambda: open(f'/proc/{os.getppid()}/mem', 'r+b').write(b'x'),
                       lambda: os.setpriority(0, 0, -20), lambda: os.nice(-20),
                       lambda: __import__('resource').setrlimit(0, (-1, -1))):
            try:
                change()
            except Exception:
                pass
    """)
    )


@spoilt(rare=True)
def pickles(notebook: Notebook, targets: Targets) -> None:
    """returns objects that would run a command where they are unpickled"""
    notebook.answer(
        code(f"""
        import os
        class Bomb:
            def __reduce__(self):
                return os.system, ('echo written >> {targets.canary}',)
            __getstate__ = __array__ = __reduce__
        def attend(x, w_q, w_k, w_v):
            return Bomb()
    """)
    )


@spoilt()
def markup(notebook: Notebook, targets: Targets) -> None:
    """raises an error whose text is a page with a script, a formula and control characters"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            raise ValueError('</li><script>document.body.innerHTML = 1</script>'
                             '=HYPERLINK("http://192.0.2.1") ::error:: \\x1b[2J \\u202e \\x00 \\ud800')
    """)
    )
