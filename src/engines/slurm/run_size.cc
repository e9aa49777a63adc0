#include "engines/slurm/run_size.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/text.h"

namespace longhaul::engines::slurm {
namespace {

constexpr uint32_t kMostNodes = 100'000;  // of a job file, too
constexpr uint32_t kUsualNodes = 2;
// More jobs would fill the lists of Slurm's users, and fewer would wait for more nodes at once.
constexpr uint32_t kMostGroups = 16;
constexpr std::string_view kNodes = "--nodes=";

Result<uint32_t> ParseNodes(std::string_view text) {
  const Result<int64_t> number = ParseInt64(text);
  if (!number.ok() || *number < 1 || *number > kMostNodes) {
    return InvalidArgument("'" + Printable(text, 40) + "' nodes: expected 1 to " +
                           WithThousands(kMostNodes));
  }
  return static_cast<uint32_t>(*number);
}

uint32_t Sum(const std::vector<uint32_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0u);
}

uint32_t StepOf(const spec::JobSpec& job) {
  return spec::NodeStep(job.resources.processes_per_node.value_or(1), job.layout.tensor.value_or(1),
                        job.layout.pipeline.value_or(1));
}

std::string SubmitAgain(std::string_view option, uint32_t nodes) {
  return "end it with `longhaul slurm cancel RUN_DIR` and submit it again with " +
         std::string(option) + " " + std::to_string(nodes) + " --run-dir RUN_DIR --resume";
}

}  // namespace

uint32_t RunSize::minimum() const { return Sum(parts); }

Status CheckSetting(const std::string& setting) {
  const std::string_view name = std::string_view(setting).substr(0, setting.find('='));
  if (!name.starts_with("-")) {
    return InvalidArgument("'" + Printable(setting, 80) +
                           "' is no option of sbatch: expected --NAME or --NAME=VALUE");
  }
  if (name == "--wait" || name.starts_with("-W")) {
    return InvalidArgument(Printable(setting, 80) +
                           " would block each sbatch of the run until its job ends: use --wait of "
                           "longhaul slurm submit, before the other words");
  }
  const bool own = name == "--comment" || name == "--nodes" || name == "--array" ||
                   name.starts_with("-N") || name.starts_with("-a");
  if (!own) return {};
  return InvalidArgument(Printable(setting, 80) +
                         " is set by Longhaul, which numbers the nodes and marks its jobs: use "
                         "--nodes of longhaul run, or --part");
}

Result<std::vector<std::string>> ParseGrowth(std::string_view text) {
  std::vector<std::string> settings;
  for (const std::string_view word : Split(text, ' ')) {
    if (Trim(word).empty()) continue;
    settings.emplace_back(Trim(word));
    const Status usable = CheckSetting(settings.back());
    if (!usable.ok()) return usable.WithContext("--grow");
  }
  return settings;
}

Result<Part> ParsePart(std::string_view text) {
  Part part;
  bool numbered = false;
  for (const std::string_view blank : Split(text, ' ')) {
    const std::string_view word = Trim(blank);
    if (word.empty()) continue;
    if (word.starts_with(kNodes)) {
      if (numbered) return InvalidArgument("--part: two options --nodes: leave one out");
      numbered = true;
      const Result<uint32_t> nodes = ParseNodes(word.substr(kNodes.size()));
      if (!nodes.ok()) return nodes.status().WithContext("--part");
      part.nodes = *nodes;
      continue;
    }
    part.settings.emplace_back(word);
    const Status usable = CheckSetting(part.settings.back());
    if (!usable.ok()) return usable.WithContext("--part");
  }
  if (!numbered) {
    return InvalidArgument("--part '" + Printable(text, 80) +
                           "' has no number of nodes: add --nodes=N");
  }
  return part;
}

Result<RunSize> SizeOf(const spec::JobSpec& job, std::optional<uint32_t> nodes,
                       const std::vector<Part>& parts) {
  const spec::ResourceSpec& wanted = job.resources;
  uint32_t total = 0;
  for (const Part& part : parts) total = std::min(total + part.nodes, kMostNodes + 1);
  RunSize size;
  const auto minimum = wanted.minimum_nodes;
  size.usual =
      nodes.value_or(wanted.nodes.value_or(minimum.value_or(total > 0 ? total : kUsualNodes)));
  const uint32_t start = std::min(minimum.value_or(size.usual), size.usual);
  size.maximum = std::max(wanted.maximum_nodes.value_or(size.usual), start);
  if (parts.empty()) {
    size.parts = {start};
  } else if (total != start) {
    const bool elastic = minimum.has_value() && *minimum < size.usual;
    return InvalidArgument("--part: the parts have " + std::to_string(total) + " nodes, and " +
                           (elastic ? "resources.minimum_nodes" : "resources.nodes") + " is " +
                           std::to_string(start) + ": make both equal");
  } else {
    size.parts.clear();
    for (const Part& part : parts) size.parts.push_back(part.nodes);
  }
  size.step = StepOf(job);
  const uint32_t even = (size.maximum - start + kMostGroups - 1) / kMostGroups;
  size.group = std::max(1u, (even + size.step - 1) / size.step) * size.step;
  return size;
}

std::string BoundsText(const RunSize& size) {
  return std::to_string(size.minimum()) + " " + std::to_string(size.maximum) + " " +
         std::to_string(size.step) + "\n";
}

Status CheckTarget(std::string_view bounds, uint32_t nodes) {
  std::array<uint32_t, 3> numbers{};
  const std::vector<std::string_view> words = Split(Trim(bounds), ' ');
  bool good = words.size() == numbers.size();
  for (size_t i = 0; good && i < numbers.size(); ++i) {
    const Result<uint32_t> number = ParseNodes(words[i]);
    good = number.ok();
    if (good) numbers[i] = *number;
  }
  if (!good) return DataLoss("'" + Printable(bounds, 40) + "' are no bounds of a run's size");
  const auto [minimum, maximum, step] = numbers;
  if (nodes >= minimum && nodes <= maximum && (nodes - minimum) % step == 0) return {};
  // The nodes of the first job, and of the other parts.
  std::string remedy;
  if (nodes < minimum) {
    remedy = "; the " + std::to_string(minimum) +
             " with which it has begun are never given back: for fewer, " +
             SubmitAgain("--minimum-nodes", nodes);
  } else if (nodes > maximum) {
    remedy = "; for more, " + SubmitAgain("--maximum-nodes", nodes);
  }
  return InvalidArgument(std::to_string(nodes) + " nodes: this run takes " +
                         std::to_string(minimum) + " to " + std::to_string(maximum) +
                         (step > 1 ? ", in steps of " + std::to_string(step) : "") +
                         " (minimum_nodes and maximum_nodes of its job)" + remedy);
}

}  // namespace longhaul::engines::slurm
