/*
 * Redlock in a bounded world, written by hand from the algorithm's description: the model of what `lockstep explore`
 * exhausts with three nodes and two clients, one attempt each, no time-outs. Times are in ticks.
 * Build with -DTTL=3 -DALLOWANCE=0 -DCRASHES=1 -DDELAY=3 -DDRIFT=0; DELAY 0 restarts at once, FOREVER never.
 */
#ifndef TTL
#define TTL 3
#endif
#ifndef ALLOWANCE
#define ALLOWANCE 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef DELAY
#define DELAY 0
#endif
#ifndef DRIFT
#define DRIFT 0
#endif

#define QUORUM 2
#define LATEST (TTL + ALLOWANCE + 1)

/* A client: nobody yet, asking, holding, its claim over, its attempt failed. */
#define IDLE 0
#define ASKING 1
#define HELD 2
#define LOST 3
#define FAILED 4

/* Between a client and a node: nothing, a SET, its answer, or the answer that was counted. */
#define NOTHING 0
#define SET 1
#define ANSWER_YES 2
#define ANSWER_NO 3
#define VOTED_YES 4
#define VOTED_NO 5

byte phase[2];
byte count[2];  /* ASKING: since the start, up to LATEST; HELD: until the claim ends */
byte link[6];   /* client * 3 + node */
byte holder[3]; /* whose token is stored, from 1; 0 for nobody's */
byte left[3];   /* until the key is gone */
byte down[3];   /* until the node answers again */
byte crashes = CRASHES;
byte drift = DRIFT;

#define DUE(c) (phase[c] == HELD && count[c] == 0)
#define HOPES(c) (phase[c] <= HELD)
#define STALE(i, c) ((link[i] == ANSWER_YES || link[i] == ANSWER_NO) && phase[c] == HELD)
/* Never two holders at once. */
#define BOTH (phase[0] == HELD && count[0] > 0 && phase[1] == HELD && count[1] > 0)

#define ALIVE (!DUE(0) && !DUE(1) && HOPES(0) && HOPES(1))
#define NONE_STALE (!STALE(0, 0) && !STALE(1, 0) && !STALE(2, 0) && !STALE(3, 1) && !STALE(4, 1) && !STALE(5, 1))
#define FREE (ALIVE && NONE_STALE)
#define YES(c) ((link[c * 3] == VOTED_YES) + (link[c * 3 + 1] == VOTED_YES) + (link[c * 3 + 2] == VOTED_YES))
#define NO(c) ((link[c * 3] == VOTED_NO) + (link[c * 3 + 1] == VOTED_NO) + (link[c * 3 + 2] == VOTED_NO))

inline forget_vote(i) {
  if
  :: link[i] >= VOTED_YES -> link[i] = NOTHING
  :: else
  fi
}

inline settle(c) {
  if
  :: YES(c) >= QUORUM && count[c] < TTL - ALLOWANCE ->
    phase[c] = HELD;
    count[c] = TTL - ALLOWANCE - count[c];
    forget_vote(c * 3); forget_vote(c * 3 + 1); forget_vote(c * 3 + 2)
  :: YES(c) >= QUORUM && count[c] >= TTL - ALLOWANCE ->
    phase[c] = FAILED; count[c] = 0;
    forget_vote(c * 3); forget_vote(c * 3 + 1); forget_vote(c * 3 + 2)
  :: YES(c) < QUORUM && NO(c) > 3 - QUORUM ->
    phase[c] = FAILED; count[c] = 0;
    forget_vote(c * 3); forget_vote(c * 3 + 1); forget_vote(c * 3 + 2)
  :: else
  fi
}

inline call(c) {
  phase[c] = ASKING; count[c] = 0;
  link[c * 3] = SET; link[c * 3 + 1] = SET; link[c * 3 + 2] = SET
}

inline arrive(c, n) {
  if
  :: down[n] > 0 -> link[c * 3 + n] = NOTHING
  :: down[n] == 0 && holder[n] == 0 ->
    holder[n] = c + 1; left[n] = TTL; link[c * 3 + n] = ANSWER_YES
  :: down[n] == 0 && holder[n] != 0 -> link[c * 3 + n] = ANSWER_NO
  fi
}

inline hear(c, n) {
  if
  :: phase[c] == ASKING ->
    link[c * 3 + n] = link[c * 3 + n] + 2;
    settle(c)
  :: else -> link[c * 3 + n] = NOTHING
  fi
}

inline crash(n) {
  holder[n] = 0; left[n] = 0; down[n] = DELAY; crashes--
}

inline age_client(c, ticks) {
  if
  :: phase[c] == ASKING -> count[c] = (count[c] + ticks > LATEST -> LATEST : count[c] + ticks)
  :: phase[c] == HELD -> count[c] = (count[c] > ticks -> count[c] - ticks : 0)
  :: else
  fi
}

inline age_node(n, ticks) {
  if
  :: left[n] > ticks -> left[n] = left[n] - ticks
  :: else -> left[n] = 0; holder[n] = 0
  fi;
  down[n] = (down[n] > ticks -> down[n] - ticks : 0)
}

/* By how much each clock goes on: c0, c1, n0, n1, n2. */
inline pass(a, b, d, e, f) {
  age_client(0, a); age_client(1, b); age_node(0, d); age_node(1, e); age_node(2, f)
}

#define CALL(c) :: d_step { FREE && phase[c] == IDLE -> call(c) }
#define ARRIVE(c, n) :: d_step { FREE && link[c * 3 + n] == SET -> arrive(c, n) }
#define HEAR(c, n) :: d_step { FREE && (link[c * 3 + n] == ANSWER_YES || link[c * 3 + n] == ANSWER_NO) -> hear(c, n) }
#define CRASH(n) :: d_step { FREE && crashes > 0 && down[n] == 0 -> crash(n) }
#define PASS(a, b, d, e, f) :: d_step { FREE && drift > 0 -> pass(a, b, d, e, f); drift-- }

active proctype world() {
end:
  do
  :: d_step { BOTH -> assert(false) }
  /* A claim that is over ends before anything else happens; of two, the first client's first. */
  :: d_step { DUE(0) -> phase[0] = LOST }
  :: d_step { !DUE(0) && DUE(1) -> phase[1] = LOST }
  /* An answer that can change nothing is taken at once, the first one first. */
  :: d_step { ALIVE && STALE(0, 0) -> link[0] = NOTHING }
  :: d_step { ALIVE && !STALE(0, 0) && STALE(1, 0) -> link[1] = NOTHING }
  :: d_step { ALIVE && !STALE(0, 0) && !STALE(1, 0) && STALE(2, 0) -> link[2] = NOTHING }
  :: d_step { ALIVE && !STALE(0, 0) && !STALE(1, 0) && !STALE(2, 0) && STALE(3, 1) -> link[3] = NOTHING }
  :: d_step { ALIVE && !STALE(0, 0) && !STALE(1, 0) && !STALE(2, 0) && !STALE(3, 1) && STALE(4, 1) -> link[4] = NOTHING }
  :: d_step { ALIVE && !STALE(0, 0) && !STALE(1, 0) && !STALE(2, 0) && !STALE(3, 1) && !STALE(4, 1) && STALE(5, 1) -> link[5] = NOTHING }
  CALL(0) CALL(1)
  ARRIVE(0, 0) ARRIVE(0, 1) ARRIVE(0, 2) ARRIVE(1, 0) ARRIVE(1, 1) ARRIVE(1, 2)
  HEAR(0, 0) HEAR(0, 1) HEAR(0, 2) HEAR(1, 0) HEAR(1, 1) HEAR(1, 2)
  CRASH(0) CRASH(1) CRASH(2)
  :: d_step { FREE -> pass(1, 1, 1, 1, 1) }
  PASS(0, 1, 1, 1, 1) PASS(2, 1, 1, 1, 1) PASS(1, 0, 1, 1, 1) PASS(1, 2, 1, 1, 1)
  PASS(1, 1, 0, 1, 1) PASS(1, 1, 2, 1, 1) PASS(1, 1, 1, 0, 1) PASS(1, 1, 1, 2, 1)
  PASS(1, 1, 1, 1, 0) PASS(1, 1, 1, 1, 2)
  od
}
