/*
 * The worker API: what a training process reports to Longhaul and asks of it.
 *
 * Plain C, so that any language can use it; linked as liblonghaul.so, which depends on nothing but
 * the C library's world (no protobuf, no gRPC, no PyTorch). The built-in trainer and the Python
 * package use this API.
 *
 *   longhaul_worker* worker = longhaul_open(&error);
 *   longhaul_phase(worker, LONGHAUL_PHASE_RENDEZVOUS);       ... build process groups ...
 *   longhaul_phase(worker, LONGHAUL_PHASE_RESTORE);
 *   longhaul_register(worker, tensors, count, &error);
 *   longhaul_restore(worker, &step, &error);                 step 0: start fresh
 *   longhaul_phase(worker, LONGHAUL_PHASE_STEPPING);
 *   for (++step; step <= steps; ++step) {
 *     ... samples [first, first + count) by longhaul_sample() ... forward, backward, optimizer ...
 *     if (longhaul_snapshot_due(worker, step)) longhaul_snapshot(worker, step, &error);
 *     longhaul_report_step(worker, &report, &error);
 *   }
 *   longhaul_close(worker);
 *
 * Threads: one thread at a time uses a longhaul_worker. Failures: functions that can fail return 0
 * or an error code (the canonical codes, as in gRPC) and fill `error` when it isn't null. The
 * library never throws, never exits and never prints. When the agent is gone every call returns
 * LONGHAUL_UNAVAILABLE: the worker should end, its node is being replaced.
 */
#ifndef LONGHAUL_H_
#define LONGHAUL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LONGHAUL_OK 0
#define LONGHAUL_INVALID_ARGUMENT 3
#define LONGHAUL_NOT_FOUND 5
#define LONGHAUL_RESOURCE_EXHAUSTED 8
#define LONGHAUL_FAILED_PRECONDITION 9
#define LONGHAUL_INTERNAL 13
#define LONGHAUL_UNAVAILABLE 14
#define LONGHAUL_DATA_LOSS 15

typedef struct longhaul_worker longhaul_worker;

typedef struct {
  int32_t code;
  char message[508]; /* ends with NUL */
} longhaul_error;

typedef enum {
  LONGHAUL_PHASE_START_UP = 1, /* entered by itself when the process begins */
  LONGHAUL_PHASE_RENDEZVOUS = 2,
  LONGHAUL_PHASE_RESTORE = 3,
  LONGHAUL_PHASE_STEPPING = 4,
  LONGHAUL_PHASE_FINISHING = 5,
} longhaul_phase_kind;

/* A stretch of this process's memory that belongs to the training state. Names are unique, at most
 * 255 bytes of UTF-8; `shape` is in elements, `dims` at most 8. The memory stays valid and in place
 * until longhaul_close or the next longhaul_register. */
typedef struct {
  const char* name;
  void* data;
  size_t bytes;
  const char* dtype; /* safetensors' names: "F32", "BF16", "I64", "U8", ... */
  const int64_t* shape;
  size_t dims;
} longhaul_tensor;

/* The samples of this worker. Step s of the job uses global positions [(s-1)*B, s*B); rank r of R
 * takes the r-th of R equal cuts. The sample at a position comes from longhaul_sample(). */
typedef struct {
  uint64_t samples;      /* in the data set; 0: the job has no data ledger */
  uint64_t global_batch; /* B */
  uint64_t seed;
  uint64_t first_step; /* steps [first_step, end_step) may be run under this lease */
  uint64_t end_step;
} longhaul_lease;

/* What a step was and cost. Times are of this rank, in nanoseconds. */
typedef struct {
  uint64_t step;
  int64_t data_ns;     /* waited for input */
  int64_t snapshot_ns; /* stopped for a copy; longhaul_snapshot adds its own time by itself */
  int64_t evaluation_ns;
  int64_t communication_ns; /* part of the productive time */
  double loss;              /* nats a token over the global batch; NaN: not known on this rank */
  double validation_loss;   /* NaN: none at this step */
  double gradient_norm;
  uint64_t tokens; /* of the step, over all ranks */
  double flops;    /* model FLOPs of the step, over all ranks */
} longhaul_step;

/* Joins the agent named by LONGHAUL_AGENT_SOCKET (set by it in the worker's environment). Null on
 * failure; LONGHAUL_NOT_FOUND when not started by Longhaul. */
longhaul_worker* longhaul_open(longhaul_error* error);
void longhaul_close(longhaul_worker* worker); /* null: nothing */

/* The job's trainer_config, as JSON text that lives as long as the worker; "" when there is
 * none. */
const char* longhaul_config(const longhaul_worker* worker);
uint64_t longhaul_attempt(const longhaul_worker* worker);

int longhaul_phase(longhaul_worker* worker, longhaul_phase_kind phase, longhaul_error* error);
int longhaul_report_step(longhaul_worker* worker, const longhaul_step* step, longhaul_error* error);
/* A text for the job's report, JSON, at most 64 KiB: the generated sample, final numbers. */
int longhaul_result(longhaul_worker* worker, const char* json, longhaul_error* error);

/* Names the state: everything that restore must bring back. Once before the first snapshot or
 * restore; again when it changes (a changed plan never restores an old one's snapshot). The memory
 * for its snapshots is made behind the caller's back from here on, or from the restore: a first
 * snapshot that comes a second a GiB later, or more, costs no more than the others. */
int longhaul_register(longhaul_worker* worker, const longhaul_tensor* tensors, size_t count,
                      longhaul_error* error);

/* Where a registered tensor lies in a global one that other ranks hold other boxes of: a box of the
 * tensor's own shape at `offset` of `shape`, both of the tensor's dims. `of` null: the tensor is
 * whole, and global under its own name. */
typedef struct {
  const char* of;
  const int64_t* shape;
  const int64_t* offset;
} longhaul_part;
/* longhaul_register with a part for each tensor: a checkpoint of it can be loaded into another
 * layout. `parts` null: all are whole. */
int longhaul_register_parts(longhaul_worker* worker, const longhaul_tensor* tensors,
                            const longhaul_part* parts, size_t count, longhaul_error* error);

/* Whether this rank's agent asks for a snapshot of the state after `step`. Ranks must agree before
 * they act on it: reduce the answers with MAX along with the step's other numbers. */
int longhaul_snapshot_due(longhaul_worker* worker, uint64_t step);
/* Copies all registered memory, hashed on the way, to the agent's memory and seals it as the state
 * after `step`. Returns when the copy is done: the caller may write its state again. While every
 * older snapshot is still being sent or persisted it waits; the agent's log says for whom. A
 * failure (say LONGHAUL_RESOURCE_EXHAUSTED) leaves the older snapshots as they were; training may
 * continue. */
int longhaul_snapshot(longhaul_worker* worker, uint64_t step, longhaul_error* error);
/* The same behind the caller's back, for state in this process's own memory: returns as soon as the
 * state is guarded against writes. What is sealed is the state as it was at this call; the caller
 * may write it again at once, but not unmap it: a write to what a thread of ours hasn't copied yet
 * waits until its 2 MiB are. Best called after the optimizer's step and waited for before the next
 * one: then nothing waits. Where the kernel gives no guard (it takes userfaultfd with the right to
 * handle the kernel's faults, and private anonymous memory) a forked child copies; such a write
 * then costs a page fault, and the calling thread must live until the wait.
 * What this and a direct copy stop the caller for is measured, and where the copy is the cheaper
 * one this copies at once, and tries again now and then. State in pages of 4 KiB is put into huge
 * ones asynchronously after the first such snapshot, since the guard changes an entry a page.
 * LONGHAUL_FAILED_PRECONDITION when registered memory is shared with other processes or a device.
 */
int longhaul_snapshot_begin(longhaul_worker* worker, uint64_t step, longhaul_error* error);
/* Waits until the snapshot that was begun is sealed, and says so to the agent; fine when none was.
 * A failure leaves the older snapshots as they were. longhaul_snapshot, longhaul_snapshot_begin,
 * longhaul_restore, longhaul_register and longhaul_close wait by themselves. */
int longhaul_snapshot_wait(longhaul_worker* worker, longhaul_error* error);
/* How the last snapshot was copied, and what training was measured to stop for by each way: "behind
 * the run: 1.3 ms, direct copy: 62 ms". Lives until the next call of this or longhaul_close. */
const char* longhaul_snapshot_way(longhaul_worker* worker);
/* What the controller chose to restore, tensor by tensor, so that a program can make room for a
 * state that it has not built yet: `data` is null, the rest as registered when it was saved. The
 * array belongs to the worker and lives until the next call of this or longhaul_close. *count is 0
 * when there is nothing to restore. LONGHAUL_DATA_LOSS as for longhaul_restore. */
int longhaul_saved(longhaul_worker* worker, const longhaul_tensor** tensors, size_t* count,
                   longhaul_error* error);
/* Fills the registered memory with the state that the controller chose, every byte verified, and
 * sets *step; 0 when there is none and the state is untouched. LONGHAUL_DATA_LOSS: the chosen copy
 * is damaged or absent; the agent has been told, the worker should end (exit code 75) and will be
 * started again from the next good copy. */
int longhaul_restore(longhaul_worker* worker, uint64_t* step, longhaul_error* error);

int longhaul_data_lease(longhaul_worker* worker, longhaul_lease* lease, longhaul_error* error);
/* The sample at a global position: pass = position / samples, then a keyed permutation of the pass.
 * Pure; needs no longhaul_worker. Requires lease->samples >= 1. */
uint64_t longhaul_sample(const longhaul_lease* lease, uint64_t position);

/* ---- Checkpoints on disk, for processes without an agent ----
 *
 * Ranks write their pieces into a folder of their own for the step, one of them commits: from then
 * on the checkpoint is there, whole, whatever crashes. It is read by boxes, by any other number of
 * ranks: each reads what it needs of it, every byte verified. docs/checkpoint-format.md */
typedef struct longhaul_checkpoint longhaul_checkpoint;

/* What a rank wrote: it goes to the rank that commits. */
typedef struct {
  uint32_t rank;
  uint64_t bytes;
  uint64_t header_bytes;
  uint64_t hash;
} longhaul_piece;

/* Writes this rank's tensors, durable when it returns; `parts` as for longhaul_register_parts. All
 * ranks give the same folder, step (from 1 on), attempt and world; a step that is saved again after
 * going back takes a higher attempt. */
int longhaul_write_piece(const char* folder, uint64_t step, uint64_t attempt, uint32_t rank,
                         uint32_t world, const longhaul_tensor* tensors, const longhaul_part* parts,
                         size_t count, longhaul_piece* piece, longhaul_error* error);
/* Makes the pieces of all ranks, in order, a checkpoint. LONGHAUL_DATA_LOSS when one isn't there.
 */
int longhaul_commit(const char* folder, const char* job, uint64_t step, uint64_t attempt,
                    const longhaul_piece* pieces, uint32_t world, longhaul_error* error);

/* The steps that a folder holds. */
typedef enum {
  LONGHAUL_STEP_COMMITTED = 1,   /* its manifest verifies, its files have their sizes */
  LONGHAUL_STEP_DAMAGED = 2,     /* the manifest does not verify, a file is absent, cut or longer */
  LONGHAUL_STEP_UNCOMMITTED = 3, /* no manifest: being written, or left by a crash */
} longhaul_step_state;
typedef struct {
  uint64_t step;
  uint64_t attempt;
  longhaul_step_state state;
  const char* path;   /* for longhaul_checkpoint_open */
  const char* reason; /* why it is not committed; "" when it is */
  int complete;       /* of an uncommitted one: not 0 when the files of all ranks are there */
} longhaul_saved_step;
typedef struct longhaul_steps longhaul_steps;
/* Looks at the steps of a folder, or at one step by its own folder. A folder that is absent or
 * empty has none. Null on failure; LONGHAUL_INVALID_ARGUMENT for a checkpoint of another format. */
longhaul_steps* longhaul_steps_open(const char* folder, longhaul_error* error);
void longhaul_steps_close(longhaul_steps* steps); /* null: nothing */
/* The newest first; they live as long as `steps`. */
const longhaul_saved_step* longhaul_steps_get(const longhaul_steps* steps, size_t* count);

/* Opens the newest step of a folder, or one step by its own folder. Null on failure:
 * LONGHAUL_NOT_FOUND when nothing was ever committed there, LONGHAUL_DATA_LOSS when what is to be
 * opened is damaged. An older step is never opened in place of a damaged one: longhaul_steps_open
 * gives the older ones. */
longhaul_checkpoint* longhaul_checkpoint_open(const char* path, longhaul_error* error);
void longhaul_checkpoint_close(longhaul_checkpoint* checkpoint); /* null: nothing */
uint64_t longhaul_checkpoint_step(const longhaul_checkpoint* checkpoint);
/* The values beside the tensors as JSON (src/checkpoint/formats/state_tree.h), as they were written
 * and verified; "" when there are none. It and the tensors below live as long as the checkpoint. */
const char* longhaul_checkpoint_tree(const longhaul_checkpoint* checkpoint);
/* The global tensors; `data` is null. */
const longhaul_tensor* longhaul_checkpoint_tensors(const longhaul_checkpoint* checkpoint,
                                                   size_t* count);
/* Fills memory: each tensor is global under its own name, or the box of a global one that its part
 * says. Each byte is read once. On failure the memory holds anything. *bytes_read (may be null) is
 * what was read of files: whole chunks of 1 MiB at most. LONGHAUL_NOT_FOUND naming the tensor that
 * isn't there, LONGHAUL_FAILED_PRECONDITION one of another shape or dtype, LONGHAUL_DATA_LOSS file
 * and byte of what is damaged. */
int longhaul_checkpoint_read(longhaul_checkpoint* checkpoint, const longhaul_tensor* tensors,
                             const longhaul_part* parts, size_t count, uint64_t* bytes_read,
                             longhaul_error* error);

#ifdef __cplusplus
}
#endif

#endif /* LONGHAUL_H_ */
