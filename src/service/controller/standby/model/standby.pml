/* Controllers that stand by for each other: lease, term, append and agents (docs/standby.md).
 *
 * Checked exhaustively by tests/standby_model_test.py with spin. Two controllers share a database,
 * which is the only arbiter; an agent takes actions of either.
 *
 *   here                     in the code
 *   row_term                 longhaul.leader.term (postgres_log.cc)
 *   lease_ended              lease_end < clock_timestamp(): may become true at any time, because
 *                            a leader may be paused or cut off for any time
 *   session[c]               the session of c that holds the advisory lock of its term; ends with
 *                            the process or the connection (leadership.cc)
 *   TakeOver                 Leadership::TakeOver, one UPDATE
 *   in_flight[c]             the statement of PostgresLog::Append that c has sent: the network may
 *                            delay it for any time, also beyond the end of its connection
 *   Database                 the server executes one statement atomically; CHECK_TERM is the
 *                            condition `term = $1` of the statement
 *   LOSE_ANSWER              the connection is lost: PostgresLog::Append sends the batch again, and
 *                            IsAdded decides when its key exists already
 *   in_flight[2]             a statement of an ended connection or process that is still under way
 *   to_agent[c]              the stream of c to the agent: in order, with any delay
 *   Agent                    ControllerTerm::Accept: refuses a lower term than the highest
 *   Pause                    implicit: a process of the model may stand still between any two steps
 *
 * Not modelled: the length of the lease. No property depends on it, so safety depends on no clock.
 */
#ifndef TERMS
#define TERMS 3          /* takeovers at most */
#endif
#ifndef EVENTS
#define EVENTS 3         /* events in the log at most */
#endif
#define NOBODY 255

byte row_term = 0;
bool lease_ended = true;          /* nobody has led yet */
bool session[2];

byte my_term[2];                  /* 0: stands by */
byte known[2];                    /* events that this controller has in its core */

byte log_length = 0;
byte log_term[EVENTS + 1];        /* the term that has added each event, from 1 */
byte acknowledged = 0;            /* the newest event of which an agent was sent the acknowledgement */

typedef Statement { bool sent; byte term; byte sequence; bool done; bool refused; bool exists };
Statement in_flight[3];

chan to_agent_0 = [2] of { byte };  /* the terms of commands */
chan to_agent_1 = [2] of { byte };
byte highest = 0;                 /* of the agent */
byte accepted = 0;                /* the term of the newest action that the agent accepted */

#ifdef WITHOUT_TERM_CHECK
#define CHECK_TERM(c) true
#else
#define CHECK_TERM(c) (in_flight[c].term == row_term)
#endif
#define PENDING(i) (in_flight[i].sent && !in_flight[i].done)
/* Keeps the statement of c under way while c goes on. One such statement at a time: others are lost
   with their connection. */
#define LOSE_ANSWER(c) \
  if \
  :: PENDING(c) && !PENDING(2) -> \
       in_flight[2].term = in_flight[c].term; in_flight[2].sequence = in_flight[c].sequence; \
       in_flight[2].sent = true; in_flight[2].done = false \
  :: true -> skip \
  fi; \
  in_flight[c].done = false; in_flight[c].refused = false; in_flight[c].exists = false

#ifdef WITHOUT_AGENT_CHECK
#define AGENT_ACCEPTS(t) true
#else
#define AGENT_ACCEPTS(t) (t >= highest)
#endif

/* A session that the server has lost does not come back in its term; the lease may end at any time. */
active proctype Faults() {
end:
  do
  :: atomic { session[0] -> session[0] = false }
  :: atomic { session[1] -> session[1] = false }
  :: atomic { !lease_ended -> lease_ended = true }
  od
}

active proctype Database() {
  byte c;
end:
  do
  :: atomic {
       if
       :: PENDING(0) -> c = 0
       :: PENDING(1) -> c = 1
       :: PENDING(2) -> c = 2
       fi;
       in_flight[c].done = true;
       if
       :: !CHECK_TERM(c) -> in_flight[c].refused = true
       :: CHECK_TERM(c) && in_flight[c].sequence != log_length + 1 -> in_flight[c].exists = true
       :: CHECK_TERM(c) && in_flight[c].sequence == log_length + 1 ->
            log_length++;
            log_term[log_length] = in_flight[c].term;
            /* only one leader appends in a term, and terms do not go back */
            assert(log_length == 1 || log_term[log_length] >= log_term[log_length - 1])
       fi;
       c = 0
     }
  od
}

proctype Controller(byte c) {
stands_by:
  /* TakeOver: the row and the events are read in the statement's order: first the row is taken,
     which waits for statements under way; then the events are read. */
  atomic {
    row_term < TERMS && (lease_ended || !(session[0] || session[1])) ->
    row_term++;
    lease_ended = false;
    session[c] = true;
    session[1 - c] = false;       /* that of a lower term does not matter any more */
    my_term[c] = row_term
  };
  atomic {
    known[c] = log_length;
    /* an acknowledged event is never lost: the one that leads has all of them in its core */
    assert(known[c] >= acknowledged)
  };

leads:
  do
  :: atomic {                     /* a batch of one event */
       known[c] < EVENTS && !in_flight[c].sent ->
       in_flight[c].term = my_term[c];
       in_flight[c].sequence = known[c] + 1;
       in_flight[c].sent = true
     }
  :: atomic { in_flight[c].sent -> LOSE_ANSWER(c) }  /* and send it again */
  :: atomic {                     /* the answer has arrived */
       in_flight[c].sent && in_flight[c].done ->
       if
       :: in_flight[c].refused -> break
       :: in_flight[c].exists && my_term[c] != row_term -> break
       :: else -> skip
       fi;
       known[c]++;
       assert(known[c] <= log_length && log_term[known[c]] == my_term[c]);
       in_flight[c].sent = false; in_flight[c].done = false; in_flight[c].exists = false
     };
     atomic {
       acknowledged = (known[c] > acknowledged -> known[c] : acknowledged);
       assert(log_term[acknowledged] != 0)
     };
     if                           /* commands are sent after the append, if the agent is connected */
     :: c == 0 && nfull(to_agent_0) -> to_agent_0 ! my_term[c]
     :: c == 1 && nfull(to_agent_1) -> to_agent_1 ! my_term[c]
     :: true -> skip
     fi
  :: lease_ended -> break         /* not renewed in time by its own clock: it ends */
  :: true -> break                /* killed */
  od;

  /* The process ends; another one begins to stand by. What it has sent may still arrive. */
  atomic {
    session[c] = false; my_term[c] = 0; known[c] = 0;
    if
    :: in_flight[c].sent -> LOSE_ANSWER(c)
    :: else -> skip
    fi;
    in_flight[c].sent = false; in_flight[c].done = false;
    in_flight[c].refused = false; in_flight[c].exists = false
  };
  goto stands_by
}

active proctype Agent() {
  byte t;
end:
  do
  :: atomic {
       if
       :: to_agent_0 ? t
       :: to_agent_1 ? t
       fi;
       if
       :: AGENT_ACCEPTS(t) ->
            assert(t >= accepted);  /* no action of a lower term after one of a higher */
            accepted = t;
            highest = (t > highest -> t : highest)
       :: else -> skip
       fi;
       t = 0
     }
  od
}

init { atomic { run Controller(0); run Controller(1) } }
