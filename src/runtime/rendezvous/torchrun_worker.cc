// The worker's half of torchrun.h: its environment, its argv and its error file.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::runtime {
namespace {

constexpr size_t kMaxErrorFileBytes = 4 << 20;
constexpr size_t kMaxTextBytes = 8 * 1024;
constexpr double kLatestSeconds = 9e9;  // what a nanosecond clock holds, nearly

using Json = nlohmann::json;

// Cut where a character begins, so that it stays valid UTF-8.
std::string Cut(std::string text) {
  if (text.size() <= kMaxTextBytes) return text;
  size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// Written as text by PyTorch, as a number by others.
std::optional<Instant> ReadTimestamp(const Json* value) {
  if (value == nullptr) return std::nullopt;
  double seconds = -1;
  if (value->is_number()) seconds = value->get<double>();
  if (value->is_string()) {
    const Result<double> number = ParseDouble(value->get_ref<const std::string&>());
    if (number.ok()) seconds = *number;
  }
  if (!(seconds >= 0 && seconds < kLatestSeconds)) return std::nullopt;
  return Instant(DurationFromSeconds(seconds));
}

// "1.13.0", "2.1.2"; unknown versions count too.
bool BeforeTorch22(std::string_view version) {
  const std::vector<std::string_view> numbers = Split(version, '.');
  if (numbers.size() < 2) return true;
  const Result<int64_t> major = ParseInt64(numbers[0]);
  const Result<int64_t> minor = ParseInt64(numbers[1]);
  if (!major.ok() || !minor.ok()) return true;
  return *major < 2 || (*major == 2 && *minor < 2);
}

}  // namespace

std::map<std::string, std::string> WorkerEnvironment(const WorkerPlace& place,
                                                     std::map<std::string, std::string> base) {
  const std::map<std::string, std::string> ours = {
      {"RANK", std::to_string(place.rank())},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"WORLD_SIZE", std::to_string(place.world)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_ranks)},
      {"GROUP_RANK", std::to_string(place.node_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(place.nodes)},
      // One role a job, so a worker's rank in its role is its rank.
      {"ROLE_RANK", std::to_string(place.rank())},
      {"ROLE_WORLD_SIZE", std::to_string(place.world)},
      {"ROLE_NAME", place.role},
      {"MASTER_ADDR", place.master_address},
      {"MASTER_PORT", std::to_string(place.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(place.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(place.max_restarts)},
      {"TORCHELASTIC_RUN_ID", place.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      // DLRover's names for a node's place.
      {"NODE_RANK", std::to_string(place.node_rank)},
      {"NODE_NUM", std::to_string(place.nodes)},
  };
  // Values of the agent's own environment must not reach the workers: the agent may itself run
  // under a launcher.
  for (const auto& [name, value] : ours) base[name] = value;
  base.erase("TORCHELASTIC_ERROR_FILE");  // an outer launcher's, never ours
  if (!place.error_file.empty()) base["TORCHELASTIC_ERROR_FILE"] = place.error_file;

  // Kept when the user has set them. NCCL's has one name before PyTorch 2.2 and another after,
  // which warns of the older one.
  const bool older = BeforeTorch22(place.torch_version);
  if (older) base.try_emplace("NCCL_ASYNC_ERROR_HANDLING", "1");
  if (!older || place.torch_version.empty()) {
    base.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  }
  // As torchrun does: each of several workers on a node would otherwise start a thread for every
  // core.
  if (place.local_ranks > 1) base.try_emplace("OMP_NUM_THREADS", "1");
  return base;
}

std::vector<std::string> WorkerArgv(std::vector<std::string> argv, uint32_t local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  const std::string number = std::to_string(local_rank);
  for (size_t i = 1; i < argv.size(); ++i) {
    size_t at = 0;
    while ((at = argv[i].find(kMacro, at)) != std::string::npos) {
      argv[i].replace(at, kMacro.size(), number);
      at += number.size();
    }
  }
  return argv;
}

// Two forms: PyTorch writes an object with the text and the time under "extraInfo", other programs
// a text with the time beside it. A file of another form is an error, and the exit code is reported
// without it.
Result<WorkerError> ParseErrorFile(std::string_view json) {
  if (json.size() > kMaxErrorFileBytes) {
    return ResourceExhausted("an error file of " + std::to_string(json.size()) + " bytes");
  }
  const Json file = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded()) return InvalidArgument("an error file that is not JSON");
  const Json* message = Member(file, "message");
  if (message == nullptr) return InvalidArgument("an error file without a message");

  WorkerError error;
  if (message->is_string()) {
    error.message = Cut(message->get<std::string>());
    error.at = ReadTimestamp(Member(file, "timestamp"));
    return error;
  }
  const Json* text = Member(*message, "message");
  if (text == nullptr || !text->is_string()) {
    return InvalidArgument("an error file whose message is neither a text nor has one");
  }
  error.message = Cut(text->get<std::string>());
  if (const Json* extra = Member(*message, "extraInfo"); extra != nullptr) {
    error.at = ReadTimestamp(Member(*extra, "timestamp"));
    const Json* stack = Member(*extra, "py_callstack");
    if (stack != nullptr && stack->is_string()) error.call_stack = Cut(stack->get<std::string>());
  }
  return error;
}

}  // namespace longhaul::runtime
