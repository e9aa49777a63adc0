// longhaul-conformance: trains small models in many layouts, and compares each with the plain model
// on one device.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "training/conformance/matrix.h"

namespace longhaul::training {
namespace {

constexpr std::string_view kHelp =
    "Trains small models in many parallel layouts, and compares losses, norms, gradients and\n"
    "weights with the plain model on one device. The ranks are threads of this process.\n"
    "\n"
    "  longhaul-conformance [--layouts N] [--steps N] [--type f32|f64] [--model NAME]\n"
    "                       [--layout TEXT | --resume] [--bitwise] [--processes] [--seed N]\n"
    "                       [--stop-at-first] [--json]\n"
    "\n"
    "  --layouts N     layouts for each model (64); together they contain each pair of settings\n"
    "  --steps N       steps of each (50)\n"
    "  --type TYPE     f32 or f64 (f32)\n"
    "  --model NAME    only the models whose name contains it\n"
    "  --layout TEXT   only this layout, as the messages print it\n"
    "  --resume        every ordered pair of the layouts: the second one takes over the state of\n"
    "                  the first after half of the steps\n"
    "  --bitwise       in bitwise mode: the weights of all layouts must have the same bits, too\n"
    "  --processes     ranks are processes and talk over Gloo; with --resume those of the first\n"
    "                  layout are killed\n"
    "  --seed N        of the choice of layouts (1)\n"
    "  --stop-at-first stop at the first layout that differs\n"
    "  --json          a line of JSON for each layout\n"
    "\n"
    "Examples:\n"
    "  longhaul-conformance\n"
    "  longhaul-conformance --type f64 --model experts --layout \"dp2 tp2 sp ep2 mb2\"\n"
    "\n"
    "Exit code: 0 all are equal, 1 one is not, 2 wrong usage.\n";

struct Options {
  uint32_t layouts = 64;
  uint32_t steps = 50;
  uint64_t seed = 1;
  at::ScalarType type = at::kFloat;
  std::string model;
  std::optional<Layout> layout;
  bool resume = false;
  bool bitwise = false;
  bool processes = false;
  bool stop_at_first = false;
  bool json = false;
};

Result<uint64_t> NumberOf(std::string_view flag, std::string_view value, uint64_t most) {
  const Result<uint64_t> number = ParseUint64(value);
  if (number.ok() && *number >= 1 && *number <= most) return *number;
  return InvalidArgument(std::string(flag) + " must be a number from 1 to " + std::to_string(most) +
                         ", not '" + Printable(value, 40) + "'");
}

Status TakeFlag(std::string_view flag, std::string_view value, Options& options) {
  if (flag == "--layouts") {
    ASSIGN_OR_RETURN(const uint64_t number, NumberOf(flag, value, 100'000));
    options.layouts = static_cast<uint32_t>(number);
  } else if (flag == "--steps") {
    ASSIGN_OR_RETURN(const uint64_t number, NumberOf(flag, value, 100'000));
    options.steps = static_cast<uint32_t>(number);
  } else if (flag == "--seed") {
    ASSIGN_OR_RETURN(options.seed, NumberOf(flag, value, UINT64_MAX));
  } else if (flag == "--type") {
    if (value != "f32" && value != "f64") {
      return InvalidArgument("--type must be f32 or f64, not '" + Printable(value, 40) + "'");
    }
    options.type = value == "f64" ? at::kDouble : at::kFloat;
  } else if (flag == "--model") {
    options.model = value;
  } else if (flag == "--layout") {
    ASSIGN_OR_RETURN(options.layout, ParseLayout(std::string(value)));
  } else {
    return InvalidArgument("unknown flag '" + Printable(flag, 40) + "'; see --help");
  }
  return {};
}

Result<Options> ReadOptions(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view flag = arguments[i];
    bool* const on = flag == "--json"            ? &options.json
                     : flag == "--stop-at-first" ? &options.stop_at_first
                     : flag == "--resume"        ? &options.resume
                     : flag == "--bitwise"       ? &options.bitwise
                     : flag == "--processes"     ? &options.processes
                                                 : nullptr;
    if (on != nullptr) {
      *on = true;
      continue;
    }
    if (i + 1 == count) return InvalidArgument(std::string(flag) + " needs a value; see --help");
    RETURN_IF_ERROR(TakeFlag(flag, arguments[++i], options));
  }
  return options;
}

using Layouts = std::vector<Layout>;  // one after the other

std::string TextOf(const Layouts& layouts) {
  std::string text = ToString(layouts.front());
  for (size_t i = 1; i < layouts.size(); ++i) text += ", then " + ToString(layouts[i]);
  return text;
}

// What is to be compared with the plain model.
std::vector<Layouts> Cases(const Options& options, const Exercise& exercise) {
  if (options.layout.has_value()) return {{*options.layout}};
  const std::vector<Layout> chosen =
      ChooseLayouts(AllLayouts(exercise, 8), options.layouts, options.seed);
  std::vector<Layouts> cases;
  for (const Layout& first : chosen) {
    if (!options.resume) cases.push_back({first});
    for (const Layout& second : chosen) {
      if (options.resume && !(first == second)) cases.push_back({first, second});
    }
  }
  return cases;
}

void Print(const Options& options, const Exercise& exercise, const Layouts& layouts,
           const Comparison& comparison) {
  const std::string layout = TextOf(layouts);
  if (options.json) {
    const nlohmann::json line = {{"model", exercise.name},
                                 {"layout", layout},
                                 {"equal", comparison.failure.empty()},
                                 {"failure", comparison.failure},
                                 {"loss", comparison.loss},
                                 {"norm", comparison.norm},
                                 {"gradients", comparison.gradients},
                                 {"weights", comparison.weights}};
    std::printf("%s\n", line.dump().c_str());
  } else if (!comparison.failure.empty()) {
    std::printf("DIFFERENT %s, %s\n  %s\n", exercise.name.c_str(), layout.c_str(),
                comparison.failure.c_str());
    if (layouts.size() == 1) {
      std::printf(
          "  again: longhaul-conformance --model \"%s\" --layout \"%s\" --steps %u --type %s\n",
          exercise.name.c_str(), layout.c_str(), exercise.steps,
          options.type == at::kDouble ? "f64" : "f32");
    }
  }
  std::fflush(stdout);
}

// In bitwise mode the weights must have the same bits as those of the first layouts.
Comparison CompareBits(const Options& options, const Exercise& exercise, const Expected& expected,
                       const Layouts& layouts, std::optional<uint64_t>& first_hash) {
  WholeWeights weights;
  Comparison comparison = options.processes
                              ? CompareProcesses(exercise, expected, layouts, &weights)
                              : CompareLayouts(exercise, expected, layouts, &weights);
  if (!options.bitwise || !comparison.failure.empty()) return comparison;
  const uint64_t hash = HashOf(weights);
  if (first_hash.value_or(hash) != hash) comparison.failure = "the weights have other bits";
  if (!first_hash.has_value() && !options.json) {
    std::printf("%s: hash of the weights %016llx\n", exercise.name.c_str(),
                static_cast<unsigned long long>(hash));
  }
  if (!first_hash.has_value()) first_hash = hash;
  return comparison;
}

// The number of layouts that differ, or an error of usage.
Result<uint32_t> RunAll(const Options& options) {
  uint32_t different = 0;
  uint32_t compared = 0;
  bool found = false;
  for (Exercise exercise : Exercises(options.type, options.steps)) {
    if (exercise.name.find(options.model) == std::string::npos) continue;
    found = true;
    exercise.options.bitwise = options.bitwise;
    if (options.layout.has_value()) {
      RETURN_IF_ERROR(CheckLayout(exercise.config, *options.layout, exercise.options.global_batch));
    }
    const std::vector<Layouts> cases = Cases(options, exercise);
    const Expected expected = RunReference(exercise);
    Comparison largest;
    std::optional<uint64_t> first_hash;
    for (const Layouts& layouts : cases) {
      const Comparison comparison = CompareBits(options, exercise, expected, layouts, first_hash);
      Print(options, exercise, layouts, comparison);
      ++compared;
      if (!comparison.failure.empty()) ++different;
      if (different > 0 && options.stop_at_first) return different;
      largest.loss = std::max(largest.loss, comparison.loss);
      largest.norm = std::max(largest.norm, comparison.norm);
      largest.gradients = std::max(largest.gradients, comparison.gradients);
      largest.weights = std::max(largest.weights, comparison.weights);
    }
    if (!options.json) {
      std::printf(
          "%s: %zu cases; largest differences: loss %.1e, norm %.1e, gradients %.1e, "
          "weights %.1e\n",
          exercise.name.c_str(), cases.size(), largest.loss, largest.norm, largest.gradients,
          largest.weights);
      std::fflush(stdout);
    }
  }
  if (!found) {
    return InvalidArgument("--model: no model's name contains '" + Printable(options.model, 40) +
                           "'");
  }
  if (!options.json) std::printf("%u cases compared, %u different\n", compared, different);
  return different;
}

int Main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--help") {
    std::fputs(kHelp.data(), stdout);
    return 0;
  }
  at::set_num_threads(1);
  const Result<Options> options = ReadOptions(count, arguments);
  const Result<uint32_t> different =
      options.ok() ? RunAll(*options) : Result<uint32_t>(options.status());
  if (!different.ok()) {
    std::fprintf(stderr, "longhaul-conformance: %s\n", different.status().message().c_str());
    return 2;
  }
  return *different > 0 ? 1 : 0;
}

}  // namespace
}  // namespace longhaul::training

int main(int count, char** arguments) {
  // OpenBLAS reads it when it is loaded: each rank is a thread of its own.
  if (std::getenv("OPENBLAS_NUM_THREADS") == nullptr) {
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", arguments);
  }
  return longhaul::training::Main(count, arguments);
}
