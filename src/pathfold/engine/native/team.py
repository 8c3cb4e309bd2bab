"""Several threads that share the work of one chain: it posts work in parts, and they do them.

Work stealing, by a few words of memory that the threads of a team share: of posted work a thread first takes its own
parts, always the same, which its core may still have in the cache, then parts of others that nobody has begun. The
chain takes parts like its helpers; at the end it waits only for parts that a helper has begun, so one that sleeps or
has no core delays nothing. The words that describe the work are not changed before it is done. What a part is, and what
these words say, is up to those who post it.
"""

from __future__ import annotations

from .jit import compiled
from .words import change, get, give_way, look, put, sleep

# Places in the words of a team: what different threads write is apart, so that they do not get in each other's way.
# Which work is posted, and in how many parts; whether helpers are to go; the parts of all works that were posted; the
# threads of the team; the words that describe the work.
APART = 16
POSTED, ENDED, DUE, THREADS, DESCRIBED = 0, APART, 2 * APART, 2 * APART + 1, 2 * APART + 2
DESCRIPTION = 6  # words
# Of each thread: which work its parts were last taken of, and how many of them; the parts it has done of all works.
OF_THREADS = DESCRIBED + DESCRIPTION + APART
TAKEN, DONE, OF_THREAD = 0, APART, 2 * APART
NUMBER = 1 << 20  # a word holds the number of a work, times this, and a number of parts, which is smaller

SPINS, YIELDS, NAP = 2000, 4000, 50  # how often to look for work before giving way, and before naps of 50 microseconds


def words_of(threads: int) -> int:
    """Return how many words a team of so many threads has."""
    return OF_THREADS + threads * OF_THREAD


@compiled
def take_of(team, owner, posted):
    """Take a part of the posted work that belongs to a thread; return its number, or -1 if all of them are taken."""
    at_owner = OF_THREADS + owner * OF_THREAD + TAKEN
    work, parts = posted // NUMBER, posted % NUMBER
    while True:
        last = look(team, at_owner)
        taken = last % NUMBER if last // NUMBER == work else 0
        part = owner + taken * get(team, THREADS)
        if last // NUMBER > work or part >= parts:
            return -1
        if change(team, at_owner, last, work * NUMBER + taken + 1):
            return part


@compiled
def take(team, thread, posted):
    """Take a part of the posted work, one of the thread's own if there is one left; return its number, or -1."""
    threads = get(team, THREADS)
    for i in range(threads):
        part = take_of(team, (thread + i) % threads, posted)
        if part >= 0:
            return part
    return -1


@compiled
def count_done(team, thread):
    """Count a part that a thread has done."""
    place = OF_THREADS + thread * OF_THREAD + DONE
    put(team, place, get(team, place) + 1)


@compiled
def wait(turn):
    """Wait before looking again for the nth time."""
    if turn > YIELDS:
        sleep(NAP)
    elif turn > SPINS:
        give_way()


@compiled
def post(team, parts):
    """Let the helpers of the team begin with the work that its words describe by now; return what tells it apart."""
    posted = (get(team, POSTED) // NUMBER + 1) * NUMBER + parts
    put(team, DUE, get(team, DUE) + parts)
    put(team, POSTED, posted)
    return posted


@compiled
def wait_for_others(team):
    """Wait until all parts of the posted work are done."""
    turn = 0
    while True:
        done = 0
        for thread in range(get(team, THREADS)):
            done += look(team, OF_THREADS + thread * OF_THREAD + DONE)
        if done == get(team, DUE):
            return
        turn += 1
        wait(turn)


@compiled
def next_work(team, seen):
    """Wait, as a helper, for other work than was seen last; return what tells it apart, or 0 when the team ends."""
    turn = 0
    while look(team, ENDED) == 0:
        posted = look(team, POSTED)
        if posted != seen:
            return posted
        turn += 1
        wait(turn)
    return 0
