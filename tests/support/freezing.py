"""A child process that is stopped, or has ended, when the call returns."""

import os
import signal
import subprocess
import time

STOP_SECONDS = 60.0
POLL_SECONDS = 0.002


def freeze(pid: int) -> None:
    """SIGSTOP a child of ours and return when its last thread has stopped; one that ends meanwhile is left alone.

    The kernel hands the signal to one thread, which stops the others when it runs: until then, long on a busy machine,
    a process of many threads still answers. SIGCONT ends it. Raises TimeoutError.
    """
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + STOP_SECONDS
    while not os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if time.monotonic() > until:
            raise TimeoutError(f"process {pid} runs {STOP_SECONDS:.0f} s after SIGSTOP")
        time.sleep(POLL_SECONDS)


def end(process: "subprocess.Popen[bytes]", seconds: float, number: signal.Signals = signal.SIGTERM) -> None:
    """Ask a child to end, and kill it after `seconds`."""
    process.send_signal(number)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
