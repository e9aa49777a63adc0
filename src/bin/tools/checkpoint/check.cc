// verify and diff.
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "bin/table.h"
#include "bin/tools/checkpoint/parts.h"
#include "checkpoint/formats/compare.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/verify.h"
#include "io/files/file.h"
#include "objects/files.h"

namespace longhaul::bin::checkpoints {
namespace {

using checkpoint::Comparison;
using checkpoint::DifferenceKind;
using checkpoint::RunVerification;
using checkpoint::TensorDifference;
using checkpoint::Verification;

struct VerifyFlags {
  std::string path;
  bool numbers = false;
  bool json = false;
};

bool Fine(const Verification& found) { return found.good() && found.non_finite.empty(); }

nlohmann::ordered_json VerificationJson(const Verification& found) {
  nlohmann::ordered_json json;
  json["good"] = Fine(found);
  json["format"] = ToString(found.format);
  json["files"] = found.files;
  json["tensors"] = found.tensors;
  json["bytes"] = found.bytes;
  json["has_hashes"] = found.vouched;
  json["damage"] = nlohmann::ordered_json::array();
  for (const auto& damage : found.damage) {
    json["damage"].push_back({{"file", damage.file},
                              {"offset", damage.offset},
                              {"what", damage.what},
                              {"tensors", damage.tensors}});
  }
  json["non_finite"] = nlohmann::ordered_json::array();
  for (const auto& tensor : found.non_finite) {
    json["non_finite"].push_back({{"tensor", tensor.tensor},
                                  {"nan", tensor.count.nan},
                                  {"infinite", tensor.count.infinite},
                                  {"first", tensor.count.first.value_or(0)}});
  }
  return json;
}

// What is wrong, a line each. `step` precedes each where there are several.
void PrintWrong(const Verification& found, const std::string& step) {
  for (const auto& damage : found.damage) {
    std::vector<std::string> names;
    for (const std::string& name : damage.tensors) names.push_back(Clean(name));
    std::printf("damaged: %s%s at byte %llu: %s%s%s\n", step.c_str(), Clean(damage.file).c_str(),
                static_cast<unsigned long long>(damage.offset), Clean(damage.what).c_str(),
                names.empty() ? "" : "; there lies ", Join(names, ", ").c_str());
  }
  for (const auto& tensor : found.non_finite) {
    std::printf(
        "not finite: %s%s has %llu NaN and %llu infinite elements, the first at element %llu\n",
        step.c_str(), Clean(tensor.tensor).c_str(),
        static_cast<unsigned long long>(tensor.count.nan),
        static_cast<unsigned long long>(tensor.count.infinite),
        static_cast<unsigned long long>(tensor.count.first.value_or(0)));
  }
}

void PrintVerification(const Verification& found, const std::string& step) {
  PrintWrong(found, step);
  if (!Fine(found)) return;
  std::printf("good: %s%llu tensors in %llu files, %s %s\n", step.c_str(),
              static_cast<unsigned long long>(found.tensors),
              static_cast<unsigned long long>(found.files),
              ToString(Bytes(static_cast<int64_t>(found.bytes))).c_str(),
              found.vouched ? "verified by hash"
                            : "verified: this format has no hashes, its form alone was checked");
}

// A run's steps one by one, and what of all of them is wrong together.
nlohmann::ordered_json RunJson(const RunVerification& run) {
  nlohmann::ordered_json json;
  json["good"] = true;
  json["folder"] = run.folder;
  json["damage"] = nlohmann::ordered_json::array();
  json["non_finite"] = nlohmann::ordered_json::array();
  json["damaged_steps"] = nlohmann::ordered_json::array();
  json["newest_good_step"] = nullptr;
  if (const auto* newest = run.newest_good()) json["newest_good_step"] = newest->step;
  json["steps_lost"] = run.steps_lost();
  json["uncommitted"] = run.uncommitted;
  json["steps"] = nlohmann::ordered_json::array();
  for (const auto& step : run.steps) {
    nlohmann::ordered_json one = {{"name", step.name}, {"step", step.step}};
    one.update(VerificationJson(step.found));
    json["good"] = json["good"].get<bool>() && Fine(step.found);
    if (!step.found.good()) json["damaged_steps"].push_back(step.step);
    for (const auto& damage : one["damage"]) json["damage"].push_back(damage);
    for (const auto& tensor : one["non_finite"]) json["non_finite"].push_back(tensor);
    json["steps"].push_back(std::move(one));
  }
  return json;
}

void PrintRun(const RunVerification& run) {
  std::vector<std::string> damaged;
  for (const auto& step : run.steps) {
    PrintVerification(step.found, step.name + ": ");
    if (!step.found.good()) damaged.push_back(std::to_string(step.step));
  }
  for (const std::string& name : run.uncommitted) {
    std::printf("not verified: %s has no MANIFEST, so it was never committed\n",
                Clean(name).c_str());
  }
  if (damaged.empty()) {
    std::printf("%zu of %zu steps in %s are undamaged\n", run.steps.size(), run.steps.size(),
                Clean(run.folder).c_str());
    return;
  }
  std::printf("%zu of %zu steps in %s are damaged: step %s; ", damaged.size(), run.steps.size(),
              Clean(run.folder).c_str(), Join(damaged, ", ").c_str());
  const auto* newest = run.newest_good();
  if (newest == nullptr) {
    std::printf("no step is good\n");
    return;
  }
  const uint64_t lost = run.steps_lost();
  std::printf("the newest good step is %llu, %s\n", static_cast<unsigned long long>(newest->step),
              lost == 0 ? "so no step is lost"
                        : (std::to_string(lost) + " steps before the newest saved one").c_str());
}

int Verify(const VerifyFlags& flags) {
  Progress progress("verified");
  checkpoint::VerifyOptions options;
  options.numbers = flags.numbers;
  options.progress = progress.Callback();
  const auto place = objects::Place::Open(flags.path);
  if (!place.ok()) return Fail(place.status());
  if (RunFolder(place->files(), place->path()).ok()) {
    const auto run = VerifyRun(place->files(), place->path(), options);
    if (!run.ok()) return FailOrStopped(run.status());
    const nlohmann::ordered_json json = RunJson(*run);
    flags.json ? Print(json) : PrintRun(*run);
    return json["good"].get<bool>() ? kExitOk : kExitFailure;
  }
  const auto found = VerifyCheckpoint(place->files(), place->path(), options);
  if (!found.ok()) return FailOrStopped(found.status());
  flags.json ? Print(VerificationJson(*found)) : PrintVerification(*found, "");
  return Fine(*found) ? kExitOk : kExitFailure;
}

struct DiffFlags {
  std::string first;
  std::string second;
  bool all = false;
  bool json = false;
};

std::string KindText(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kEqual:
      return "equal";
    case DifferenceKind::kValues:
      return "differs";
    case DifferenceKind::kShapeOrDtype:
      return "other form";
    case DifferenceKind::kOnlyInFirst:
      return "only in first";
    case DifferenceKind::kOnlyInSecond:
      return "only in second";
  }
  return "";
}

nlohmann::ordered_json NumberJson(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

void DiffJson(const Comparison& comparison) {
  nlohmann::ordered_json json;
  json["equal"] = comparison.equal();
  json["tensors"] = nlohmann::ordered_json::array();
  for (const TensorDifference& tensor : comparison.tensors) {
    nlohmann::ordered_json entry;
    entry["name"] = tensor.name;
    entry["kind"] = KindText(tensor.kind);
    if (tensor.kind == DifferenceKind::kValues) {
      entry["elements"] = tensor.elements;
      entry["differing"] = tensor.differing;
      entry["max_absolute"] = NumberJson(tensor.max_absolute);
      entry["max_relative"] = NumberJson(tensor.max_relative);
      entry["first_place"] = tensor.first_place;
      entry["first"] = NumberJson(tensor.first_value);
      entry["second"] = NumberJson(tensor.second_value);
    } else if (tensor.kind != DifferenceKind::kEqual) {
      entry["first"] = tensor.first_form;
      entry["second"] = tensor.second_form;
    }
    json["tensors"].push_back(std::move(entry));
  }
  json["values"] = comparison.values;
  Print(json);
}

std::string Short(double number) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return text;
}

std::string PlaceText(const std::vector<int64_t>& place) {
  std::vector<std::string> indexes;
  for (const int64_t index : place) indexes.push_back(std::to_string(index));
  return "[" + Join(indexes, ", ") + "]";
}

void DiffTable(const Comparison& comparison, bool all) {
  Table table({"TENSOR", "RESULT", "DIFFERING", "MAX ABS", "MAX REL", "FIRST AT", "HERE", "THERE"});
  size_t equal = 0;
  for (const TensorDifference& t : comparison.tensors) {
    equal += t.kind == DifferenceKind::kEqual ? 1 : 0;
    if (t.kind == DifferenceKind::kEqual && !all) continue;
    if (t.kind == DifferenceKind::kValues) {
      table.Add({Clean(t.name), KindText(t.kind),
                 std::to_string(t.differing) + " of " + std::to_string(t.elements),
                 Short(t.max_absolute), Short(t.max_relative), PlaceText(t.first_place),
                 Short(t.first_value), Short(t.second_value)});
    } else {
      const bool same = t.kind == DifferenceKind::kEqual;
      table.Add({Clean(t.name), KindText(t.kind), "", "", "", "", same ? "" : t.first_form,
                 same ? "" : t.second_form});
    }
  }
  if (equal < comparison.tensors.size() || all) std::printf("%s", table.Text().c_str());
  for (const std::string& value : comparison.values) {
    std::printf("value %s\n", Clean(value).c_str());
  }
  std::printf("%zu of %zu tensors are equal, bit by bit; %zu values differ\n", equal,
              comparison.tensors.size(), comparison.values.size());
}

int Diff(const DiffFlags& flags) {
  const auto here = objects::Place::Open(flags.first);
  if (!here.ok()) return Fail(here.status());
  const auto there = objects::Place::Open(flags.second);
  if (!there.ok()) return Fail(there.status());
  const auto first = checkpoint::OpenCheckpoint(here->files(), here->path());
  if (!first.ok()) return Fail(first.status());
  const auto second = checkpoint::OpenCheckpoint(there->files(), there->path());
  if (!second.ok()) return Fail(second.status());
  Progress progress("compared");
  const auto comparison =
      CompareCheckpoints(here->files(), *first, there->files(), *second, progress.Callback());
  if (!comparison.ok()) return FailOrStopped(comparison.status());
  if (flags.json) {
    DiffJson(*comparison);
  } else {
    DiffTable(*comparison, flags.all);
  }
  return comparison->equal() ? kExitOk : kExitFailure;
}

}  // namespace

void AddVerify(CLI::App& command, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* sub = command.add_subcommand("verify", "Read every byte and compare it with its hash");
  sub->add_option("CHECKPOINT", flags->path,
                  "Checkpoint of any format; of a run's folder every step")
      ->required();
  sub->add_flag("--numbers", flags->numbers, "Also search for NaN and infinities");
  sub->add_flag("--json", flags->json, "Print one JSON object");
  sub->footer(
      "Exit code 1 when anything is damaged or, with --numbers, not finite.\n"
      "Examples:\n"
      "  longhaul checkpoint verify runs/headers-gpt\n"
      "  longhaul checkpoint verify runs/headers-gpt/checkpoints/step-000000040.e1\n"
      "  longhaul checkpoint verify s3://models/runs/headers-gpt\n"
      "  longhaul checkpoint verify model.pt --numbers");
  sub->callback([flags, &action] { action = [flags] { return Verify(*flags); }; });
}

void AddDiff(CLI::App& command, Action& action) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App* sub = command.add_subcommand("diff", "Compare two checkpoints tensor by tensor");
  sub->add_option("FIRST", flags->first, "Checkpoint of any format")->required();
  sub->add_option("SECOND", flags->second, "Checkpoint of any format")->required();
  sub->add_flag("--all", flags->all, "Print equal tensors too");
  sub->add_flag("--json", flags->json, "Print one JSON object");
  sub->footer(
      "Exit code 1 when they differ.\n"
      "Examples:\n"
      "  longhaul checkpoint diff runs/a runs/b\n"
      "  longhaul checkpoint diff runs/a s3://models/runs/a\n"
      "  longhaul checkpoint diff model.pt model.safetensors --json");
  sub->callback([flags, &action] { action = [flags] { return Diff(*flags); }; });
}

}  // namespace longhaul::bin::checkpoints
