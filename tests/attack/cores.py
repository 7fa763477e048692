# On a machine that others use too: the server alone on one core, the bystander and the attackers on the others, and both sides
# in groups of their own (autogroups) of which the first comes before all other work of the machine and the second behind it. So
# what is measured is what attackers do, not what a compiler does. Linux, as root.
import os


ALL = sorted(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else []
SERVERS, OTHERS = ALL[:1], ALL[1:]


def can_part():
    return bool(OTHERS) and os.path.exists('/proc/self/autogroup') and os.geteuid() == 0


def own_group(nice):
    """This process, and who it starts from now on, in a group of their own."""
    try:
        os.setsid()
    except PermissionError:
        pass  # it is a session's first already
    with open('/proc/self/autogroup', 'w', encoding='ascii') as file:
        file.write(str(nice))


class OnCores:
    """What is started within runs on these cores."""

    def __init__(self, which):
        self.which, self.before = which, os.sched_getaffinity(0)

    def __enter__(self):
        os.sched_setaffinity(0, self.which)

    def __exit__(self, *_):
        os.sched_setaffinity(0, self.before)
