#include "engines/kubernetes/import/command/launcher.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr int64_t kMostNodes = 100'000;

// Options that torchrun does not have, or has for scripts of DLRover. With true the next word is
// the value.
struct OtherFlag {
  std::string_view name;
  bool takes_value;
};
constexpr auto kOtherFlags = std::to_array<OtherFlag>({{"accelerator", true},
                                                       {"auto-tunning", false},
                                                       {"comm-perf-test", false},
                                                       {"exclude-straggler", false},
                                                       {"membind-policy", true},
                                                       {"network-check", false},
                                                       {"numa-affinity", false},
                                                       {"precheck", true},
                                                       {"save-at-breakpoint", false},
                                                       {"training-port", true},
                                                       {"ucp-device-type", true},
                                                       {"use-env", false}});

// Options whose purpose Longhaul fulfils by itself, whatever their value is.
constexpr auto kRendezvousFlags = std::to_array<std::string_view>(
    {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "standalone", "node-rank", "master-addr",
     "master-port", "local-addr", "monitor-interval", "start-method", "training-port", "use-env",
     "auto-config", "accelerator"});
constexpr const char* kRendezvousReason =
    "Longhaul serves the rendezvous, numbers the nodes and starts their processes itself";

constexpr auto kModules = std::to_array<std::string_view>(
    {"torch.distributed.run", "torch.distributed.launch", "dlrover.trainer.torch.elastic_run"});

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsPython(std::string_view word) {
  const std::string_view name = BaseName(word);
  return name.starts_with("python") && name.substr(6).find_first_not_of("0123456789.") == name.npos;
}

bool IsLauncherProgram(std::string_view word) {
  const std::string_view name = BaseName(word);
  return name == "torchrun" || name == "dlrover-run";
}

bool IsLauncherModule(std::string_view word) {
  return std::ranges::find(kModules, word) != kModules.end();
}

// An option as it is written, or nothing for a word that is none.
struct WrittenFlag {
  std::string name;  // long, with '-'
  bool takes_next = false;
  std::optional<CommandWord> value;  // written after '='
};

// "--nnodes=$N" and "--nnodes=2": what is before the '=' is never expanded.
std::optional<WrittenFlag> ReadFlag(const CommandWord& word) {
  std::string_view text = word.text;
  if (!word.literal && text.starts_with('"')) text.remove_prefix(1);
  if (text.size() < 2 || text.front() != '-' || text == "--") return std::nullopt;
  const size_t equals = text.find('=');
  WrittenFlag flag;
  flag.name = text.substr(0, equals);
  const bool is_long = flag.name.starts_with("--");
  flag.name.erase(0, is_long ? 2 : 1);
  std::ranges::replace(flag.name, '_', '-');
  if (equals != text.npos)
    flag.value = CommandWord{std::string(text.substr(equals + 1)), word.literal};
  if (!is_long && flag.name == "m") flag.name = "module";
  if (!is_long && flag.name == "r") flag.name = "redirects";
  if (!is_long && flag.name == "t") flag.name = "tee";
  const auto* const other = std::ranges::find(kOtherFlags, flag.name, &OtherFlag::name);
  if (other != kOtherFlags.end()) {
    flag.takes_next = other->takes_value && !flag.value;
    return flag;
  }
  // Shortened, while it is unique.
  std::vector<std::string> candidates;
  for (const std::string& known : runtime::TorchrunFlags()) {
    if (known == flag.name) candidates = {known};
    if (known == flag.name) break;
    if (is_long && known.starts_with(flag.name)) candidates.push_back(known);
  }
  if (candidates.size() != 1) return flag;  // unknown, which Apply reports
  flag.name = candidates.front();
  flag.takes_next = !flag.value && runtime::TorchrunFlagTakesNextWord("--" + flag.name);
  return flag;
}

// Whether a shell may expand a word to options: "$ARGS", but not "$HOME/train.py" or a word in
// quotes.
bool MayBeOptions(const CommandWord& word) {
  if (word.literal || (word.text.front() != '$' && word.text.front() != '`')) return false;
  return word.text.find('/') == std::string::npos && !word.text.ends_with(".py");
}

class LauncherReader {
 public:
  LauncherReader(std::string path, Translation& translation, LauncherOptions& options)
      : path_(std::move(path)), translation_(translation), options_(options) {}

  bool module() const { return module_; }
  bool no_python() const { return no_python_; }

  void Apply(const std::string& name, const std::optional<CommandWord>& value) {
    if (name == "auto-config" && options_.processes.empty()) options_.processes = "auto";
    if (std::ranges::find(kRendezvousFlags, name) != kRendezvousFlags.end()) {
      return translation_.NotNeeded(Place(name), kRendezvousReason);
    }
    if (name == "module") module_ = true;
    if (name == "no-python") no_python_ = true;
    if (name == "module" || name == "no-python") return;
    if (value && !value->literal) return ApplyAtRunTime(name, *value);
    const std::string text = value ? value->text : "";
    if (name == "node-unit") return ApplyNodeUnit(text);
    if (std::ranges::find(kOtherFlags, name, &OtherFlag::name) != kOtherFlags.end()) {
      return translation_.Dropped(Place(name), "Longhaul has no such function");
    }
    ApplyTorchrun(name, value);
  }

 private:
  std::string Place(const std::string& name) const {
    return path_.ends_with("]") ? path_ : path_ + " --" + name;
  }

  // A value that a shell computes in the pod.
  void ApplyAtRunTime(const std::string& name, const CommandWord& value) {
    if (name == "nnodes") {
      const size_t colon = value.text.find(':');
      const Result<int64_t> least = ParseInt64(value.text.substr(0, colon));
      const bool bounded = colon != std::string::npos && least.ok();
      if (bounded && *least >= 1 && *least <= kMostNodes) options_.minimum_nodes = *least;
      return translation_.Changed(Place(name), "the number of nodes is that of the pods");
    }
    if (name == "nproc-per-node") {
      options_.processes = "auto";
      return translation_.Changed(Place(name), "its value " + Printable(value.text, 60) +
                                                   " is known only in the pod: taken as auto");
    }
    translation_.Dropped(Place(name), "its value " + Printable(value.text, 60) +
                                          " is known only in the pod: set it in spec.job");
  }

  void ApplyNodeUnit(const std::string& text) {
    const Result<int64_t> number = ParseInt64(text);
    if (number.ok() && *number >= 1 && *number <= kMostNodes) {
      options_.node_unit = *number;
      return;
    }
    translation_.Fail(Place("node-unit"),
                      "is '" + Printable(text, 60) + "', expected a number from 1 to 100,000");
  }

  // Each option by itself, so that the report names the one that is lost.
  void ApplyTorchrun(const std::string& name, const std::optional<CommandWord>& value) {
    const std::vector<std::string> words = {value ? "--" + name + "=" + value->text : "--" + name,
                                            "script.py"};
    const Result<runtime::TorchrunArguments> read = runtime::ParseTorchrunArguments(words, {});
    const bool translated = name == "nnodes" || name == "nproc-per-node" || name == "max-restarts";
    if (!read.ok() && (translated || read.status().message().starts_with("unknown flag"))) {
      return translation_.Fail(path_, read.status().message());
    }
    if (!read.ok()) return translation_.Dropped(Place(name), read.status().message());
    if (name == "nnodes") {
      options_.minimum_nodes = read->minimum_nodes;
      options_.maximum_nodes = read->nodes;
    } else if (name == "nproc-per-node") {
      options_.processes = value->text;
    } else if (name == "max-restarts") {
      options_.max_restarts = read->max_restarts.value_or(0);
    } else if (!read->warnings.empty()) {
      translation_.Dropped(Place(name), read->warnings.front());
    } else {
      translation_.Dropped(Place(name), "a job file has no key for it");
    }
  }

  const std::string path_;
  Translation& translation_;
  LauncherOptions& options_;
  bool module_ = false;
  bool no_python_ = false;
};

}  // namespace

std::optional<FoundLauncher> FindLauncher(std::span<const CommandWord> words) {
  if (words.empty() || !words[0].literal) return std::nullopt;
  if (IsLauncherProgram(words[0].text)) {
    return FoundLauncher{std::string(BaseName(words[0].text)), "python3", 1};
  }
  if (!IsPython(words[0].text)) return std::nullopt;
  size_t at = 1;
  while (at < words.size() && (words[at].text == "-u" || words[at].text == "-O")) ++at;
  if (at + 1 < words.size() && words[at].text == "-m" && words[at + 1].literal &&
      IsLauncherModule(words[at + 1].text)) {
    return FoundLauncher{words[at + 1].text, words[0].text, at + 2};
  }
  // python /usr/bin/torchrun
  if (at < words.size() && words[at].literal && IsLauncherProgram(words[at].text)) {
    return FoundLauncher{std::string(BaseName(words[at].text)), words[0].text, at + 1};
  }
  return std::nullopt;
}

bool NamesLauncher(const CommandWord& word) {
  if (word.literal) return IsLauncherProgram(word.text) || IsLauncherModule(word.text);
  const bool runs =
      word.text.find("$(") != std::string::npos || word.text.find('`') != std::string::npos;
  return runs && (MentionsName(word.text, "torchrun") || MentionsName(word.text, "dlrover-run"));
}

std::vector<CommandWord> TranslateLauncher(const FoundLauncher& launcher,
                                           std::span<const CommandWord> words,
                                           const std::string& path, Translation& translation,
                                           LauncherOptions& options) {
  LauncherReader reader(path, translation, options);
  size_t at = 0;
  while (at < words.size() && translation.ok()) {
    if (words[at].literal && words[at].text == "--") {
      ++at;
      break;
    }
    std::optional<WrittenFlag> flag = ReadFlag(words[at]);
    if (!flag) break;
    ++at;
    if (flag->takes_next && at == words.size()) {
      translation.Fail(path, "--" + flag->name + " has no value");
      return {};
    }
    if (flag->takes_next) flag->value = words[at++];
    reader.Apply(flag->name, flag->value);
  }
  if (at == words.size()) {
    translation.Fail(path, launcher.name + " has no script, expected one after its options");
    return {};
  }
  if (MayBeOptions(words[at])) {
    translation.Fail(path, "the word " + Printable(words[at].text, 60) + " after " + launcher.name +
                               " is known only in the pod: write its options out, or the script in "
                               "quotes");
    return {};
  }
  if (launcher.name == "torch.distributed.launch") {
    translation.Changed(path, "scripts get LOCAL_RANK as a variable, and no option --local-rank");
  }
  std::vector<CommandWord> command;
  if (!reader.no_python()) {
    command = {{launcher.interpreter, true}, {"-u", true}};
    if (reader.module()) command.push_back({"-m", true});
  }
  command.insert(command.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return command;
}

bool TranslateLauncherVariable(const std::string& name, const std::string& value,
                               const std::string& path, Translation& translation,
                               LauncherOptions& options) {
  if (!name.starts_with("PET_")) return false;
  std::string flag;
  for (const char c : name.substr(4)) {
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::vector<std::string> known = runtime::TorchrunFlags();
  const bool is_other = std::ranges::find(kOtherFlags, flag, &OtherFlag::name) != kOtherFlags.end();
  if (std::ranges::find(known, flag) == known.end() && !is_other) return false;
  LauncherReader reader(path, translation, options);
  reader.Apply(flag, CommandWord{value, true});
  return true;
}

}  // namespace longhaul::engines::kubernetes
