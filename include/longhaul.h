/*
 * The worker API: the functions by which a training process communicates with Longhaul.
 *
 * The API is plain C, so that any language can use it. Link it as liblonghaul.so, which depends
 * only on the system's C library (not on protobuf, gRPC or PyTorch). The built-in trainer and the
 * Python package use this API.
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
 * Threads: at most one thread at a time may use a longhaul_worker.
 * Failures: functions that can fail return 0 or an error code (the canonical codes, as in gRPC) and
 * fill `error` if it is not null. The library never throws, never exits and never prints. If the
 * agent is gone, every call returns LONGHAUL_UNAVAILABLE. The worker should then end, because its
 * node is being replaced.
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
  LONGHAUL_PHASE_START_UP = 1, /* entered automatically when the process starts */
  LONGHAUL_PHASE_RENDEZVOUS = 2,
  LONGHAUL_PHASE_RESTORE = 3,
  LONGHAUL_PHASE_STEPPING = 4,
  LONGHAUL_PHASE_FINISHING = 5,
} longhaul_phase_kind;

/* A region of this process's memory that belongs to the training state. Names are unique and at
 * most 255 bytes of UTF-8. `shape` is in elements; `dims` is at most 8. The memory must stay valid
 * and in place until longhaul_close or the next longhaul_register. */
typedef struct {
  const char* name;
  void* data;
  size_t bytes;
  const char* dtype; /* safetensors' names: "F32", "BF16", "I64", "U8", ... */
  const int64_t* shape;
  size_t dims;
} longhaul_tensor;

/* The samples of this worker. Step s of the job uses global positions [(s-1)*B, s*B); rank r of R
 * takes the r-th of R equal parts. The sample at a position comes from longhaul_sample(). */
typedef struct {
  uint64_t samples;      /* samples in the data set; 0: the job has no data ledger */
  uint64_t global_batch; /* B */
  uint64_t seed;
  uint64_t first_step; /* the lease allows the steps [first_step, end_step) */
  uint64_t end_step;
} longhaul_lease;

/* The results and costs of a step. Times are those of this rank, in nanoseconds. */
typedef struct {
  uint64_t step;
  int64_t data_ns;     /* time waiting for input */
  int64_t snapshot_ns; /* time stopped for a copy; longhaul_snapshot adds its own time */
  int64_t evaluation_ns;
  int64_t communication_ns; /* part of the productive time */
  double loss;              /* nats per token over the global batch; NaN: unknown on this rank;
                               infinity: not finite, also for a loss that is NaN */
  double validation_loss;   /* NaN: none at this step */
  double gradient_norm;
  uint64_t tokens; /* tokens of the step, over all ranks */
  double flops;    /* model FLOPs of the step, over all ranks */
} longhaul_step;

/* Connects to the agent's socket, LONGHAUL_AGENT_SOCKET, which the agent sets in the worker's
 * environment. Returns null on failure. The code is LONGHAUL_NOT_FOUND if Longhaul did not start
 * this process. */
longhaul_worker* longhaul_open(longhaul_error* error);
void longhaul_close(longhaul_worker* worker); /* null: does nothing */

/* Returns the job's trainer_config as JSON text, valid as long as the worker; "" if the job has
 * none. */
const char* longhaul_config(const longhaul_worker* worker);
uint64_t longhaul_attempt(const longhaul_worker* worker);

int longhaul_phase(longhaul_worker* worker, longhaul_phase_kind phase, longhaul_error* error);
int longhaul_report_step(longhaul_worker* worker, const longhaul_step* step, longhaul_error* error);
/* Sends JSON text of at most 64 KiB for the job's report: the generated sample, final numbers. */
int longhaul_result(longhaul_worker* worker, const char* json, longhaul_error* error);

/* Declares the state: all memory that a restore must fill. Call it before the first snapshot or
 * restore, and again when the state changes (a snapshot of an old plan is never restored into a
 * changed one). The memory for the snapshots is allocated asynchronously from this call on, or from
 * the restore. If the first snapshot follows at least one second per GiB later, it costs no more
 * than the others. */
int longhaul_register(longhaul_worker* worker, const longhaul_tensor* tensors, size_t count,
                      longhaul_error* error);

/* The position of a registered tensor in a global tensor of which other ranks hold other boxes: a
 * box with the tensor's own shape at `offset` in `shape`. Both arrays have the tensor's dims. If
 * `of` is null, the tensor is whole, and its own name is the global one. */
typedef struct {
  const char* of;
  const int64_t* shape;
  const int64_t* offset;
} longhaul_part;
/* Like longhaul_register, with a part for each tensor, so that a checkpoint can be loaded into
 * another layout. If `parts` is null, all tensors are whole. */
int longhaul_register_parts(longhaul_worker* worker, const longhaul_tensor* tensors,
                            const longhaul_part* parts, size_t count, longhaul_error* error);

/* Returns not 0 if this rank's agent requests a snapshot of the state after `step`. The ranks must
 * agree before they act on it: reduce the results with MAX along with the step's other numbers. */
int longhaul_snapshot_due(longhaul_worker* worker, uint64_t step);
/* Copies and hashes all registered memory to the agent's memory and seals the copy as the state
 * after `step`. Returns when the copy is done; the caller may then write its state again. Blocks
 * while every older snapshot is still being sent or persisted; the agent's log names the transfers
 * that it waits for. A failure (for example LONGHAUL_RESOURCE_EXHAUSTED) leaves the older snapshots
 * unchanged, and training may continue. */
int longhaul_snapshot(longhaul_worker* worker, uint64_t step, longhaul_error* error);
/* The asynchronous form of longhaul_snapshot, for state in this process's own memory. Returns as
 * soon as the state is guarded against writes. The sealed snapshot is the state at the time of this
 * call. The caller may write the state again at once, but must not unmap it: a write to memory that
 * the library's thread has not copied yet blocks until its 2 MiB are copied. To avoid such waits,
 * call this after the optimizer's step and wait for it before the next one.
 *
 * The guard requires userfaultfd with the right to handle the kernel's faults, and private
 * anonymous memory. Without it a forked child makes the copy. A write to memory that is not copied
 * yet then costs a page fault, and the calling thread must live until the wait.
 *
 * The library measures how long this call and a direct copy stop the caller. If the direct copy is
 * cheaper, this call copies directly and retries the asynchronous form from time to time. After the
 * first such snapshot, state in pages of 4 KiB is moved into huge pages asynchronously, because the
 * guard changes one entry per page.
 *
 * Returns LONGHAUL_FAILED_PRECONDITION if registered memory is shared with other processes or a
 * device. */
int longhaul_snapshot_begin(longhaul_worker* worker, uint64_t step, longhaul_error* error);
/* The asynchronous form for state in memory of any kind that the caller does not write before the
 * wait, such as page-locked buffers into which a device copies the state. A thread of the library
 * calls ready(argument), unless `ready` is null, which returns when the memory holds the state (0),
 * or that it never will (not 0); then the thread copies and seals. `ready` may not use the worker.
 * `stopped_ns` is the time for which the caller has stopped training for this snapshot already.
 * Until the wait longhaul_snapshot_due returns 0. It and longhaul_report_step report the snapshot
 * to the agent as soon as it is sealed. */
int longhaul_snapshot_begin_staged(longhaul_worker* worker, uint64_t step, int64_t stopped_ns,
                                   int (*ready)(void* argument), void* argument,
                                   longhaul_error* error);
/* Blocks until the snapshot that was begun is sealed, and reports it to the agent. Succeeds if none
 * was begun. A failure leaves the older snapshots unchanged. longhaul_snapshot,
 * longhaul_snapshot_begin, longhaul_snapshot_begin_staged, longhaul_restore, longhaul_register and
 * longhaul_close include this wait. */
int longhaul_snapshot_wait(longhaul_worker* worker, longhaul_error* error);
/* Returns how the last snapshot was copied, and the measured time for which training stopped with
 * each method, for example "asynchronous: 1 ms, direct copy: 62 ms". The text is valid until the
 * next call of this function or longhaul_close. */
const char* longhaul_snapshot_way(longhaul_worker* worker);
/* Lists the tensors of the state that the controller chose to restore, so that a program can
 * allocate a state that it has not built yet. `data` is null; the other members are as registered
 * when the state was saved. The array belongs to the worker and is valid until the next call of
 * this function or longhaul_close. *count is 0 if there is nothing to restore. Returns
 * LONGHAUL_DATA_LOSS in the same cases as longhaul_restore. */
int longhaul_saved(longhaul_worker* worker, const longhaul_tensor** tensors, size_t* count,
                   longhaul_error* error);
/* Fills the registered memory with the state that the controller chose, verifies every byte, and
 * sets *step. *step is 0 if there is no such state; the memory is then unchanged. Returns
 * LONGHAUL_DATA_LOSS if the chosen copy is damaged or absent. The damage has then been reported to
 * the agent. The worker should end (exit code 75) and is started again from the next good copy. */
int longhaul_restore(longhaul_worker* worker, uint64_t* step, longhaul_error* error);

int longhaul_data_lease(longhaul_worker* worker, longhaul_lease* lease, longhaul_error* error);
/* Returns the sample at a global position: pass = position / samples, then a keyed permutation of
 * the pass. Pure; requires no longhaul_worker. Requires lease->samples >= 1. */
uint64_t longhaul_sample(const longhaul_lease* lease, uint64_t position);

/* ---- Checkpoints on disk, for processes without an agent ----
 *
 * All ranks write their pieces into the folder of the step, and then one rank commits. After the
 * commit the complete checkpoint survives any crash. Any number of ranks can read it by boxes: each
 * rank reads only the bytes that it requires and verifies all of them. The format is documented in
 * docs/checkpoint-format.md. */
typedef struct longhaul_checkpoint longhaul_checkpoint;

/* Describes the file that a rank wrote. Send it to the rank that commits. */
typedef struct {
  uint32_t rank;
  uint64_t bytes;
  uint64_t header_bytes;
  uint64_t hash;
} longhaul_piece;

/* Writes this rank's tensors, which are durable when it returns. `parts` is as for
 * longhaul_register_parts. All ranks pass the same folder, step (at least 1), attempt and world. A
 * step that is saved again after a rollback requires a higher attempt. */
int longhaul_write_piece(const char* folder, uint64_t step, uint64_t attempt, uint32_t rank,
                         uint32_t world, const longhaul_tensor* tensors, const longhaul_part* parts,
                         size_t count, longhaul_piece* piece, longhaul_error* error);
/* Commits the pieces of all ranks, in the order of ranks, as a checkpoint. Returns
 * LONGHAUL_DATA_LOSS if a piece is missing. */
int longhaul_commit(const char* folder, const char* job, uint64_t step, uint64_t attempt,
                    const longhaul_piece* pieces, uint32_t world, longhaul_error* error);

/* The state of a step in a folder of checkpoints. */
typedef enum {
  LONGHAUL_STEP_COMMITTED = 1,   /* the manifest verifies, the files have their sizes */
  LONGHAUL_STEP_DAMAGED = 2,     /* the manifest does not verify, a file is absent, cut or longer */
  LONGHAUL_STEP_UNCOMMITTED = 3, /* no manifest: in progress, or left by a crash */
} longhaul_step_state;
typedef struct {
  uint64_t step;
  uint64_t attempt;
  longhaul_step_state state;
  const char* path;   /* argument for longhaul_checkpoint_open */
  const char* reason; /* why it is not committed; "" if it is */
  int complete;       /* of an uncommitted step: not 0 if the files of all ranks exist */
} longhaul_saved_step;
typedef struct longhaul_steps longhaul_steps;
/* Inspects the steps of a folder, or one step if `folder` is the step's own folder. An absent or
 * empty folder has no steps. Returns null on failure; the code is LONGHAUL_INVALID_ARGUMENT for a
 * checkpoint of another format. */
longhaul_steps* longhaul_steps_open(const char* folder, longhaul_error* error);
void longhaul_steps_close(longhaul_steps* steps); /* null: does nothing */
/* Returns the steps, the newest first. They are valid as long as `steps`. */
const longhaul_saved_step* longhaul_steps_get(const longhaul_steps* steps, size_t* count);

/* Opens the newest step of a folder, or one step if `path` is the step's own folder. Returns null
 * on failure: LONGHAUL_NOT_FOUND if nothing was ever committed there, LONGHAUL_DATA_LOSS if the
 * step is damaged. It never opens an older step in place of a damaged one; use longhaul_steps_open
 * to list the older steps. */
longhaul_checkpoint* longhaul_checkpoint_open(const char* path, longhaul_error* error);
void longhaul_checkpoint_close(longhaul_checkpoint* checkpoint); /* null: does nothing */
uint64_t longhaul_checkpoint_step(const longhaul_checkpoint* checkpoint);
/* Returns the values other than tensors as JSON (src/checkpoint/formats/state_tree.h), as they were
 * written, after verification; "" if there are none. This text and the tensors below are valid as
 * long as the checkpoint. */
const char* longhaul_checkpoint_tree(const longhaul_checkpoint* checkpoint);
/* Returns the global tensors; their `data` is null. */
const longhaul_tensor* longhaul_checkpoint_tensors(const longhaul_checkpoint* checkpoint,
                                                   size_t* count);
/* Fills memory. Each tensor is either the global tensor of its own name, or the box of a global one
 * that its part specifies. Each byte is read once. On failure the content of the memory is
 * undefined. *bytes_read (may be null) is the number of bytes read from files: whole chunks of at
 * most 1 MiB. Returns LONGHAUL_NOT_FOUND with the name of a missing tensor,
 * LONGHAUL_FAILED_PRECONDITION with the name of a tensor of another shape or dtype, and
 * LONGHAUL_DATA_LOSS with the file and byte of the damage. */
int longhaul_checkpoint_read(longhaul_checkpoint* checkpoint, const longhaul_tensor* tensors,
                             const longhaul_part* parts, size_t count, uint64_t* bytes_read,
                             longhaul_error* error);

/* ---- Optimizers, for any process ----
 *
 * Each function does one step of an optimizer on the caller's memory: flat arrays of f32, row by
 * row for a matrix. The formulas are in docs/optimizers.md. The functions keep nothing, start no
 * threads and may be called by several threads at once on different arrays. They return
 * LONGHAUL_INVALID_ARGUMENT, and write nothing, if a pointer is null, an array is empty, unaligned
 * or overlaps another one, or an option is out of range. The state of an optimizer is 0 before the
 * first step, except where a function sets it.
 *
 * The first member of each struct of options is the struct's size, sizeof(longhaul_adamw_options)
 * for example. A later version of the library may append members; it accepts the older sizes. */
typedef struct {
  size_t size;
  uint64_t number; /* of the step, from 1 */
  double rate;     /* the learning rate, at least 0 */
  double decay;    /* decoupled weight decay, at least 0: w *= 1 - rate * decay */
  double scale;    /* factor of the gradients, for clipping; -1 maximises */
} longhaul_update;

typedef struct {
  size_t size;
  double beta1, beta2; /* 0 to below 1, as all betas */
  double epsilon;      /* at least 0 */
} longhaul_adamw_options;
int longhaul_adamw(const longhaul_adamw_options* options, const longhaul_update* update,
                   size_t count, float* weights, const float* gradients, float* first,
                   float* second, longhaul_error* error);

typedef struct {
  size_t size;
  double beta1, beta2;
  double delta; /* above 0 */
} longhaul_agd_options;
int longhaul_agd(const longhaul_agd_options* options, const longhaul_update* update, size_t count,
                 float* weights, const float* gradients, float* first, float* second,
                 longhaul_error* error);

typedef struct {
  size_t size;
  double beta1, beta2;
} longhaul_lion_options;
int longhaul_lion(const longhaul_lion_options* options, const longhaul_update* update, size_t count,
                  float* weights, const float* gradients, float* momentum, longhaul_error* error);

typedef struct {
  size_t size;
  double epsilon;   /* above 0 */
  double least;     /* of the root mean square of the weights, at least 0 */
  double threshold; /* of the root mean square of the update, above 0 */
} longhaul_adafactor_options;
/* `state` has rows + columns floats, or `columns` if there is one row. */
int longhaul_adafactor(const longhaul_adafactor_options* options, const longhaul_update* update,
                       size_t rows, size_t columns, float* weights, const float* gradients,
                       float* state, longhaul_error* error);

/* out [m, n] = a [m, k] times b [k, n], or times the transpose of b [n, k]. Returns 0, or not 0 if
 * it failed. */
typedef int (*longhaul_matrix_product)(void* argument, size_t m, size_t n, size_t k, const float* a,
                                       const float* b, int transpose_b, float* out);
typedef struct {
  size_t size;
  double momentum;    /* 0 to below 1 */
  int32_t like_adamw; /* not 0: scaled for AdamW's rate and decay */
  int32_t reserved;   /* 0 */
} longhaul_muon_options;
/* Calls product(argument, ...) from the calling thread. Returns LONGHAUL_FAILED_PRECONDITION if a
 * product fails; weights and momentum are then as before. */
int longhaul_muon(const longhaul_muon_options* options, const longhaul_update* update, size_t rows,
                  size_t columns, float* weights, const float* gradients, float* momentum,
                  longhaul_matrix_product product, void* argument, longhaul_error* error);

typedef struct {
  size_t size;
  double beta1, beta2;
  double epsilon;     /* above 0 */
  double l1, l2, l21; /* penalties, at least 0; update->decay must be 0 */
} longhaul_group_adam_options;
/* Every row is a group. *dropped (may be null) is the number of rows that are 0. */
int longhaul_group_adam(const longhaul_group_adam_options* options, const longhaul_update* update,
                        size_t rows, size_t columns, float* weights, const float* gradients,
                        float* first, float* second, float* offset, size_t* dropped,
                        longhaul_error* error);

typedef struct {
  size_t size;
  double power;       /* above 0, at most 1 */
  double initial;     /* above 0 */
  double l1, l2, l21; /* penalties, at least 0; update->decay must be 0 */
} longhaul_group_adagrad_options;
/* Sets the state for these weights, before the first step. */
int longhaul_group_adagrad_begin(const longhaul_group_adagrad_options* options,
                                 const longhaul_update* update, size_t count, const float* weights,
                                 float* sum, float* offset, longhaul_error* error);
/* Requires the rate of longhaul_group_adagrad_begin, above 0, at all steps. */
int longhaul_group_adagrad(const longhaul_group_adagrad_options* options,
                           const longhaul_update* update, size_t rows, size_t columns,
                           float* weights, const float* gradients, float* sum, float* offset,
                           size_t* dropped, longhaul_error* error);

/* SAM and WSAM around any optimizer. */
typedef struct {
  size_t size;
  double radius; /* at least 0 */
  double gamma;  /* 0 to below 1; 0.5: SAM */
} longhaul_sharpness_options;
/* moved = weights + radius * gradients / (norm + 1e-12); `norm` is that of all gradients. */
int longhaul_sharpness_perturb(const longhaul_sharpness_options* options, double norm, size_t count,
                               const float* weights, const float* gradients, float* moved,
                               longhaul_error* error);
/* Replaces the gradients by the mix of both, for the optimizer. */
int longhaul_sharpness_mix(const longhaul_sharpness_options* options, size_t count,
                           float* gradients, const float* moved_gradients, longhaul_error* error);
/* The decoupled form, after the optimizer's step with the gradients. */
int longhaul_sharpness_correct(const longhaul_sharpness_options* options, double rate, size_t count,
                               float* weights, const float* gradients, const float* moved_gradients,
                               longhaul_error* error);

#ifdef __cplusplus
}
#endif

#endif /* LONGHAUL_H_ */
