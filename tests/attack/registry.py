# The attacks, by name, in the order in which they are written down.
import dataclasses

ATTACKS = {}


@dataclasses.dataclass
class Attack:
    name: str
    run: object  # a coroutine of an Attacker: one round
    works: bool  # its requests are in order and are computed: what others feel is a loaded machine's, not harm


def attack(name, works=False):
    def register(function):
        ATTACKS[name] = Attack(name, function, works)
        return function
    return register
