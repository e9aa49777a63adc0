// torchrun's interface: its command line, the environment of a worker, and the file into which a
// failed worker writes its error. Pure: text in, values out.
//
// Follows PyTorch 1.13 to 2.15 (docs/torchrun.md). Leaves out TORCHELASTIC_TIMER_FILE, because
// nothing would read the pipe that it names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::runtime {

// The value of --nproc-per-node.
enum class ProcessCount {
  kNumber,
  kAuto,  // the GPUs of a node, or its cores if it has none
  kCpus,
  kGpus,
};

// The streams of a worker that --redirects or --tee selects: one choice for all local ranks, or one
// for each of those named.
struct StreamChoice {
  static constexpr uint8_t kStdout = 1;
  static constexpr uint8_t kStderr = 2;

  uint8_t all = 0;  // bits of kStdout and kStderr
  std::map<uint32_t, uint8_t> by_local_rank;

  friend bool operator==(const StreamChoice&, const StreamChoice&) = default;
};

struct TorchrunArguments {
  std::vector<std::string> argv;  // of a worker: interpreter, script and its arguments
  uint32_t nodes = 1;
  uint32_t minimum_nodes = 1;  // as `nodes`, unless a range was given
  ProcessCount processes = ProcessCount::kNumber;
  uint32_t processes_per_node = 1;       // with kNumber
  std::optional<uint32_t> max_restarts;  // torchrun's own default is 0
  std::string run_id = "none";
  std::string role = "default";
  std::string log_directory;  // empty: not given
  StreamChoice redirects;
  StreamChoice tee;
  std::optional<std::vector<uint32_t>> shown_local_ranks;  // absent: the output of all is shown
  std::string line_prefix;            // a template with ${rank} and others; empty: not given
  bool help = false;                  // -h was given; the other values don't count
  std::vector<std::string> warnings;  // requests that are not carried out, a sentence each
};

// Reads torchrun's arguments (without the program's name). As in torchrun, flags may be written
// with '-' or '_', as "--flag value" or "--flag=value", or shortened while they are unique, and
// every flag may come from `environment` as PET_<NAME>. A flag whose meaning Longhaul cannot keep
// is refused with the remedy. Longhaul adds --nodes, --procs and "-- COMMAND", which is run
// unchanged. The interpreter is PYTHON_EXEC of `environment`, else `default_python`.
// kInvalidArgument names the wrong flag, and for an unknown one the most similar known one.
Result<TorchrunArguments> ParseTorchrunArguments(
    std::span<const std::string> arguments, const std::map<std::string, std::string>& environment,
    const std::string& default_python = "python3");

// The long names of all flags that ParseTorchrunArguments knows, with '-'.
std::vector<std::string> TorchrunFlags();

// Whether this word is a flag whose value is the next word: "--nnodes", but not "--nnodes=2".
bool TorchrunFlagTakesNextWord(const std::string& word);

// A worker's place in its attempt.
struct WorkerPlace {
  uint32_t node_rank = 0;
  uint32_t nodes = 1;
  uint32_t first_rank = 0;  // of the node
  uint32_t local_rank = 0;
  uint32_t local_ranks = 1;  // on the node
  uint32_t world = 1;
  std::string master_address;
  uint16_t master_port = 0;
  uint32_t restart_count = 0;
  uint32_t max_restarts = 0;
  std::string run_id = "none";
  std::string role = "default";
  std::string error_file;     // empty: none
  std::string torch_version;  // of the worker's Python; empty: unknown

  uint32_t rank() const { return first_rank + local_rank; }
};

// Returns the whole environment of a worker: `base`, with torchrun's variables in place of any that
// it has. Only variables that torchrun leaves to the user (OMP_NUM_THREADS, NCCL's error handling)
// are kept when set.
std::map<std::string, std::string> WorkerEnvironment(const WorkerPlace& place,
                                                     std::map<std::string, std::string> base);

// Returns a worker's argv, with every "${local_rank}" in the arguments after the program replaced.
std::vector<std::string> WorkerArgv(std::vector<std::string> argv, uint32_t local_rank);

// The error report of a worker that failed under torch.distributed.elastic's @record.
struct WorkerError {
  std::string message;        // "ValueError: no such file"; at most 8 KiB, valid UTF-8
  std::string call_stack;     // Python's; empty when not given; same limit
  std::optional<Instant> at;  // root cause: the earliest among the workers

  friend bool operator==(const WorkerError&, const WorkerError&) = default;
};

// Reads an error file in the old form (message is a text) or the new one.
Result<WorkerError> ParseErrorFile(std::string_view json);

}  // namespace longhaul::runtime
