#include "runtime/rendezvous/torchrun.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>
#include <utility>

#include "base/text.h"

namespace longhaul::runtime {
namespace {

constexpr uint32_t kMaxNodes = 100'000;
constexpr uint32_t kMaxProcessesPerNode = 1'024;

enum class Takes { kValue, kNothing };

// What becomes of a flag that Longhaul reads without using its value.
enum class Unused {
  kNo,         // it is used
  kSilent,     // it has no effect under Longhaul that a script or its user could observe
  kElsewhere,  // kSilent for an address of this machine, else a warning
  kWarn,
  kRefuse,  // its meaning would be lost: an error with the remedy
};

struct Flag {
  std::string_view name;  // long, with '-'
  Takes takes = Takes::kValue;
  char letter = 0;
  Unused unused = Unused::kNo;
  std::string_view why = "";      // the end of a warning or an error
  std::string_view allowed = "";  // with kRefuse: values that mean the default, between '|'
};

constexpr std::string_view kOwnRendezvous = "Longhaul serves the rendezvous itself";
constexpr std::string_view kNotYet = "not supported yet";
constexpr std::string_view kOneCommand =
    "one command starts all nodes; run it once, with --nnodes (other machines join a controller "
    "as agents: --controller)";
constexpr std::string_view kOwnEvents =
    "Longhaul writes its events to events.jsonl in the run's directory; leave the flag out";
constexpr std::string_view kOwnLogs =
    "Longhaul writes the workers' output to logs/ in the run's directory; leave the flag out";
constexpr std::string_view kFilterLogs =
    "Longhaul writes no filtered copies; apply grep to logs/ in the run's directory";
constexpr std::string_view kNuma =
    "Longhaul does not bind workers to cores; start them with numactl: --no-python numactl ...";
constexpr std::string_view kVirtual =
    "Longhaul gives each worker its real LOCAL_RANK; set CUDA_VISIBLE_DEVICES from it in the "
    "script, before CUDA is initialised";
constexpr std::string_view kCompletion =
    "Longhaul's completion for bash is tools/completion.bash; leave the flag out";
constexpr std::string_view kStopTime =
    "Longhaul decides when it kills workers that do not end; set a time limit in the script";
constexpr auto kNothing = Takes::kNothing;
constexpr auto kValue = Takes::kValue;

constexpr Flag kFlags[] = {
    {"help", kNothing, 'h'},
    // torchrun's, in the order of its help (2.15).
    {"nnodes"},
    {"nproc-per-node"},
    {"rdzv-backend", kValue, 0, Unused::kSilent},
    {"rdzv-endpoint", kValue, 0, Unused::kElsewhere, kOwnRendezvous},
    {"rdzv-id"},
    {"rdzv-conf", kValue, 0, Unused::kWarn, kOwnRendezvous},
    {"standalone", kNothing, 0, Unused::kSilent},
    {"max-restarts"},
    {"monitor-interval", kValue, 0, Unused::kSilent},
    {"start-method", kValue, 0, Unused::kSilent},
    {"event-log-handler", kValue, 0, Unused::kRefuse, kOwnEvents, "null"},
    {"role"},
    {"module", kNothing, 'm'},
    {"no-python", kNothing},
    {"run-path", kNothing, 0, Unused::kSilent},
    {"log-dir"},
    {"redirects", kValue, 'r'},
    {"tee", kValue, 't'},
    {"log-line-prefix-template"},
    {"local-ranks-filter"},
    {"duplicate-stdout-filters", kValue, 0, Unused::kRefuse, kFilterLogs},
    {"duplicate-stderr-filters", kValue, 0, Unused::kRefuse, kFilterLogs},
    {"node-rank", kValue, 0, Unused::kRefuse, kOneCommand, "0"},
    {"master-addr", kValue, 0, Unused::kElsewhere, kOwnRendezvous},
    {"master-port", kValue, 0, Unused::kSilent},
    {"local-addr", kValue, 0, Unused::kElsewhere, kOwnRendezvous},
    {"logs-specs", kValue, 0, Unused::kRefuse, kOwnLogs, "default"},
    {"numa-binding", kValue, 0, Unused::kRefuse, kNuma},
    {"signals-to-handle"},
    {"shutdown-timeout", kValue, 0, Unused::kRefuse, kStopTime, "30"},
    {"virtual-local-rank", kNothing, 0, Unused::kRefuse, kVirtual},
    {"print-completion", kValue, 0, Unused::kRefuse, kCompletion},
    // Those of DLRover's launcher, so that its scripts start here too.
    {"network-check", kNothing, 0, Unused::kWarn, kNotYet},
    {"exclude-straggler", kNothing, 0, Unused::kWarn, kNotYet},
    {"node-unit", kValue, 0, Unused::kWarn, kNotYet},
    {"save-at-breakpoint", kNothing, 0, Unused::kWarn, kNotYet},
    {"auto-config", kNothing, 0, Unused::kWarn, kNotYet},
    // Ours.
    {"nodes"},
    {"procs"},
};

// Whether HOST, HOST:PORT or [IPV6]:PORT names the machine itself.
bool IsThisMachine(std::string_view address) {
  for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]", "0.0.0.0"}) {
    if (address == host || (address.starts_with(host) && address[host.size()] == ':')) return true;
  }
  return address.empty() || address == "::1";
}

const Flag* FindByLetter(char letter) {
  for (const Flag& flag : kFlags) {
    if (flag.letter == letter) return &flag;
  }
  return nullptr;
}

// By the whole name, or a beginning that only one flag has.
Result<const Flag*> FindByName(const std::string& written) {
  std::string name = written;
  std::ranges::replace(name, '_', '-');
  std::vector<std::string> candidates;
  const Flag* found = nullptr;
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
    if (!name.empty() && flag.name.starts_with(name)) {
      found = &flag;
      candidates.push_back("--" + std::string(flag.name));
    }
  }
  if (candidates.size() == 1) return found;
  if (candidates.size() > 1) {
    return InvalidArgument("--" + written + " could be " + Join(candidates, " or "));
  }
  std::vector<std::string_view> known;
  for (const Flag& flag : kFlags) known.push_back(flag.name);
  const std::optional<std::string_view> nearest = Nearest(name, known);
  return InvalidArgument("unknown flag --" + Printable(written) +
                         (nearest ? "; did you mean --" + std::string(*nearest) + "?" : ""));
}

Result<uint32_t> ParseCount(std::string_view flag, std::string_view text, uint32_t low,
                            uint32_t high) {
  const Result<int64_t> number = ParseInt64(text);
  if (!number.ok() || *number < low || *number > high) {
    return InvalidArgument("--" + std::string(flag) + ": \"" + Printable(text) +
                           "\" is not a number from " + std::to_string(low) + " to " +
                           WithThousands(high));
  }
  return static_cast<uint32_t>(*number);
}

// "3", or "0:1,1:2": a choice by local rank.
Result<StreamChoice> ParseStreams(std::string_view flag, std::string_view text) {
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    ASSIGN_OR_RETURN(const uint32_t all, ParseCount(flag, text, 0, 3));
    choice.all = static_cast<uint8_t>(all);
    return choice;
  }
  for (const std::string_view part : Split(text, ',')) {
    const std::vector<std::string_view> sides = Split(part, ':');
    if (sides.size() != 2) {
      return InvalidArgument("--" + std::string(flag) + ": \"" + Printable(part) +
                             "\" is not LOCAL_RANK:STREAMS");
    }
    ASSIGN_OR_RETURN(const uint32_t rank, ParseCount(flag, sides[0], 0, kMaxProcessesPerNode - 1));
    ASSIGN_OR_RETURN(const uint32_t streams, ParseCount(flag, sides[1], 0, 3));
    choice.by_local_rank[rank] = static_cast<uint8_t>(streams);
  }
  return choice;
}

class Parser {
 public:
  Parser(std::span<const std::string> arguments,
         const std::map<std::string, std::string>& environment)
      : arguments_(arguments), environment_(environment) {}

  Result<TorchrunArguments> Parse(const std::string& default_python) {
    RETURN_IF_ERROR(ReadEnvironment());
    while (next_ < arguments_.size() && !at_command_) RETURN_IF_ERROR(ReadArgument());
    if (result_.help) return std::move(result_);
    RETURN_IF_ERROR(BuildArgv(default_python));
    return std::move(result_);
  }

 private:
  // Flags given as PET_<NAME>; the command line, read later, overrides them.
  Status ReadEnvironment() {
    const auto prefix = environment_.find("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (prefix != environment_.end()) result_.line_prefix = prefix->second;
    for (const Flag& flag : kFlags) {
      std::string name = "PET_";
      for (const char c : flag.name) {
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      }
      const auto found = environment_.find(name);
      if (found == environment_.end()) continue;
      if (flag.takes == kNothing && found->second != "1") continue;
      const Status applied = Apply(flag, found->second);
      if (!applied.ok()) return applied.WithContext(name);
    }
    return {};
  }

  // The first word that is no flag begins the command, as with torchrun: flags after the script
  // belong to the script.
  Status ReadArgument() {
    const std::string& word = arguments_[next_];
    if (word == "--") {
      ++next_;
      verbatim_ = true;
      at_command_ = true;
      return {};
    }
    if (word.size() < 2 || word[0] != '-') {
      at_command_ = true;
      return {};
    }
    ++next_;
    return word[1] == '-' ? ReadLong(word.substr(2)) : ReadShort(word);
  }

  Status ReadLong(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    ASSIGN_OR_RETURN(const Flag* flag, FindByName(name));
    if (flag->takes == kNothing) {
      if (equals == std::string::npos) return Apply(*flag, "1");
      return InvalidArgument("--" + name + " takes no value");
    }
    if (equals != std::string::npos) return Apply(*flag, word.substr(equals + 1));
    return ApplyNext(*flag);
  }

  // "-m", "-r 3", "-r3", "-r=3".
  Status ReadShort(const std::string& word) {
    const Flag* flag = FindByLetter(word[1]);
    if (flag == nullptr) return InvalidArgument("unknown flag " + Printable(word));
    if (flag->takes == kNothing) {
      if (word.size() == 2) return Apply(*flag, "1");
      return InvalidArgument("unknown flag " + Printable(word));
    }
    if (word.size() == 2) return ApplyNext(*flag);
    return Apply(*flag, word.substr(word[2] == '=' ? 3 : 2));
  }

  Status ApplyNext(const Flag& flag) {
    if (next_ == arguments_.size()) {
      return InvalidArgument("--" + std::string(flag.name) + " needs a value");
    }
    return Apply(flag, arguments_[next_++]);
  }

  Status Apply(const Flag& flag, const std::string& value) {
    if (flag.unused != Unused::kNo) return ApplyUnused(flag, value);
    if (flag.takes == kNothing) return ApplySwitch(flag.name);
    if (flag.name == "nnodes" || flag.name == "nodes") return ApplyNodes(flag.name, value);
    if (flag.name == "nproc-per-node" || flag.name == "procs") {
      return ApplyProcesses(flag.name, value);
    }
    if (flag.name == "max-restarts") {
      ASSIGN_OR_RETURN(result_.max_restarts, ParseCount(flag.name, value, 0, 1'000'000'000));
    } else if (flag.name == "redirects") {
      ASSIGN_OR_RETURN(result_.redirects, ParseStreams(flag.name, value));
    } else if (flag.name == "tee") {
      ASSIGN_OR_RETURN(result_.tee, ParseStreams(flag.name, value));
    } else if (flag.name == "rdzv-id") {
      result_.run_id = value;
    } else if (flag.name == "role") {
      result_.role = value;
    } else if (flag.name == "log-line-prefix-template") {
      result_.line_prefix = value;
    } else if (flag.name == "local-ranks-filter") {
      return ApplyLocalRanks(value);
    } else if (flag.name == "signals-to-handle") {
      return CheckSignals(value);
    } else {
      CHECK(flag.name == "log-dir") << flag.name;
      result_.log_directory = value;
    }
    return {};
  }

  // A warning is given where the run differs from what the user may expect, an error where it would
  // do something else.
  Status ApplyUnused(const Flag& flag, const std::string& value) {
    const std::string name = "--" + std::string(flag.name);
    const bool ignored = flag.unused == Unused::kWarn ||
                         (flag.unused == Unused::kElsewhere && !IsThisMachine(value));
    if (ignored) Warn(name + " is ignored: " + std::string(flag.why));
    if (flag.unused != Unused::kRefuse) return {};
    if (!flag.allowed.empty() && value == flag.allowed) return {};
    return InvalidArgument(name + (flag.takes == kValue ? " " + Printable(value) : "") +
                           " is not supported: " + std::string(flag.why));
  }

  // "0,1,2": the local ranks whose output is shown.
  Status ApplyLocalRanks(const std::string& value) {
    std::vector<uint32_t> ranks;
    for (const std::string_view part : Split(value, ',')) {
      ASSIGN_OR_RETURN(ranks.emplace_back(),
                       ParseCount("local-ranks-filter", Trim(part), 0, kMaxProcessesPerNode - 1));
    }
    result_.shown_local_ranks = std::move(ranks);
    return {};
  }

  // A signal that torchrun handles ends its run, as it ends `longhaul run`.
  static Status CheckSignals(const std::string& value) {
    static const std::set<std::string, std::less<>> kHandled = {"SIGTERM", "SIGINT", "SIGHUP",
                                                                "SIGQUIT"};
    for (const std::string_view part : Split(value, ',')) {
      const std::string_view signal = Trim(part);
      if (kHandled.contains(signal)) continue;
      return InvalidArgument("--signals-to-handle: \"" + Printable(signal) +
                             "\" is not supported: Longhaul forwards no signals; send it to the "
                             "workers, or name only SIGTERM, SIGINT, SIGHUP and SIGQUIT");
    }
    return {};
  }

  Status ApplySwitch(std::string_view name) {
    if (name == "help") result_.help = true;
    if (name == "module") module_ = true;
    if (name == "no-python") no_python_ = true;
    return {};
  }

  // "4", or "2:4".
  Status ApplyNodes(std::string_view flag, const std::string& value) {
    const std::vector<std::string_view> ends = Split(value, ':');
    if (ends.size() > 2) {
      return InvalidArgument("--" + std::string(flag) + ": \"" + Printable(value) +
                             "\" is not NODES or MIN:MAX");
    }
    ASSIGN_OR_RETURN(const uint32_t least, ParseCount(flag, ends.front(), 1, kMaxNodes));
    ASSIGN_OR_RETURN(result_.nodes, ParseCount(flag, ends.back(), 1, kMaxNodes));
    if (least > result_.nodes) {
      return InvalidArgument("--" + std::string(flag) + ": the least number of nodes in " + value +
                             " is above the most");
    }
    result_.minimum_nodes = least;
    return {};
  }

  Status ApplyProcesses(std::string_view flag, const std::string& value) {
    static const std::map<std::string, ProcessCount> kWords = {
        {"auto", ProcessCount::kAuto}, {"cpu", ProcessCount::kCpus}, {"gpu", ProcessCount::kGpus}};
    if (const auto word = kWords.find(value); word != kWords.end()) {
      result_.processes = word->second;
      return {};
    }
    if (value == "xpu") {
      return InvalidArgument("--" + std::string(flag) +
                             " xpu is not supported: Longhaul counts "
                             "NVIDIA GPUs only; give the number of workers");
    }
    const Result<uint32_t> number = ParseCount(flag, value, 1, kMaxProcessesPerNode);
    if (!number.ok()) {
      return InvalidArgument(number.status().message() + ", nor auto, cpu or gpu");
    }
    result_.processes = ProcessCount::kNumber;
    result_.processes_per_node = *number;
    return {};
  }

  // After "--", whatever isn't a Python script is run as it stands.
  // Python runs with -u: buffered output would show steps late, or lose the last lines of a killed
  // worker.
  Status BuildArgv(const std::string& default_python) {
    const std::span<const std::string> command = arguments_.subspan(next_);
    if (command.empty()) return InvalidArgument("no script given");
    if (module_ && no_python_) {
      return InvalidArgument("--module and --no-python can't go together");
    }
    const bool as_it_stands =
        no_python_ || (verbatim_ && !module_ && !command.front().ends_with(".py"));
    if (!as_it_stands) {
      const auto python = environment_.find("PYTHON_EXEC");
      result_.argv = {python == environment_.end() ? default_python : python->second, "-u"};
      if (module_) result_.argv.emplace_back("-m");
    }
    result_.argv.insert(result_.argv.end(), command.begin(), command.end());
    return {};
  }

  void Warn(std::string text) {
    if (std::ranges::find(result_.warnings, text) == result_.warnings.end()) {
      result_.warnings.push_back(std::move(text));
    }
  }

  std::span<const std::string> arguments_;
  const std::map<std::string, std::string>& environment_;
  size_t next_ = 0;
  bool at_command_ = false;
  bool verbatim_ = false;  // the command came after "--"
  bool module_ = false;
  bool no_python_ = false;
  TorchrunArguments result_;
};

}  // namespace

std::vector<std::string> TorchrunFlags() {
  std::vector<std::string> names;
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  return names;
}

bool TorchrunFlagTakesNextWord(const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word == "--") return false;
  if (word[1] != '-') {
    const Flag* flag = FindByLetter(word[1]);
    return flag != nullptr && flag->takes == kValue && word.size() == 2;
  }
  if (word.find('=') != std::string::npos) return false;
  const Result<const Flag*> flag = FindByName(word.substr(2));
  return flag.ok() && (*flag)->takes == kValue;
}

Result<TorchrunArguments> ParseTorchrunArguments(
    std::span<const std::string> arguments, const std::map<std::string, std::string>& environment,
    const std::string& default_python) {
  return Parser(arguments, environment).Parse(default_python);
}

}  // namespace longhaul::runtime
