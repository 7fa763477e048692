# The attacks, by name, in the order in which they are written down.
import dataclasses

ATTACKS = {}


@dataclasses.dataclass
class Attack:
    name: str
    run: object  # a coroutine of an Attacker: one round
    works: bool  # its requests are in order and are computed: what others feel is a loaded machine's, not harm
    tls: bool    # it is on a server that speaks TLS


def attack(name, works=False, tls=False):
    def register(function):
        ATTACKS[name] = Attack(name, function, works, tls)
        return function
    return register
