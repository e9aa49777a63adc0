#include "frontend/job_request.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/text.h"
#include "io/files/file.h"
#include "spec/job/job_name.h"

namespace longhaul::frontend {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kLargestJobFile = 1 << 20;
constexpr size_t kLongestName = 63;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

Result<spec::JobSpec> LoadFile(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    return InvalidArgument(file + " is a directory, expected a job file (see examples/)");
  }
  const Result<std::string> text = io::ReadText(file, kLargestJobFile);
  if (!text.ok()) {
    if (text.status().code() == Code::kNotFound) {
      return NotFound("no job file " + file + " (to run a command: longhaul run -- COMMAND ...)");
    }
    return text.status();
  }
  return spec::ParseJob(*text, file);
}

// The keys of a recipe from the command that torchrun's arguments make of a script or a module:
// the interpreter, perhaps -u, and then the script, or -m and the module.
Result<Json> RecipeOf(const std::string& framework, const std::vector<std::string>& command) {
  Json json = {{"name", NameOfCommand(command)}, {"framework", framework}};
  auto word = command.begin();
  const auto program = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const bool python = word != command.end() && program(*word).starts_with("python");
  if (python) json["python"] = *word++;
  if (python && word != command.end() && *word == "-u") ++word;
  const bool module = word != command.end() && *word == "-m";
  if (module) ++word;
  if (!python || word == command.end() || (!module && word->starts_with("-"))) {
    return InvalidArgument(
        "--framework needs a script or a module to start: longhaul run --framework " +
        Printable(framework, 40) + " [options] SCRIPT.py ..., or ... -m MODULE ...");
  }
  json[module ? "module" : "script"] = *word++;
  json["args"] = std::vector<std::string>(word, command.end());
  return json;
}

Result<spec::JobSpec> FromCommand(const JobRequest& request) {
  Json json = {{"name", NameOfCommand(request.command)}, {"command", request.command}};
  if (!request.framework.empty()) {
    ASSIGN_OR_RETURN(json, RecipeOf(request.framework, request.command));
  }
  if (!request.environment.empty()) json["environment"] = request.environment;
  std::error_code error;
  json["working_directory"] = std::filesystem::current_path(error).string();
  json["resources"] = {{"nodes", request.nodes.value_or(1)},
                       {"processes_per_node", request.processes_per_node.value_or(1)}};
  return spec::ParseJob(json.dump(-1, ' ', false, Json::error_handler_t::replace), "the command");
}

}  // namespace

std::string WholePlace(const std::string& place) {
  if (place.empty() || place.starts_with("s3://")) return place;
  std::error_code error;
  const auto whole = std::filesystem::absolute(place, error).lexically_normal();
  return error ? place : whole.string();
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$`;&|<>()*?[]#~!{}") == std::string::npos;
    if (plain) {
      line += word;
      continue;
    }
    line += "'";
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return line;
}

std::string DescribeCommand(const spec::JobSpec& job) {
  const auto number = [](const std::optional<uint32_t>& value) {
    return value ? std::to_string(*value) : "auto";
  };
  std::string text = "job: " + job.name + "\nworkers: " + number(job.resources.nodes) +
                     (job.resources.nodes == 1 ? " node x " : " nodes x ") +
                     number(job.resources.processes_per_node) +
                     (job.resources.processes_per_node == 1 ? " process\n" : " processes\n");
  if (job.built_in()) return text + "command: none, the built-in trainer\n";
  text += "command: " + ShellLine(job.command) + "\n";
  if (!job.working_directory.empty()) text += "working directory: " + job.working_directory + "\n";
  for (const auto& [name, value] : job.environment) {
    text += "environment: " + name + "=" + ShellLine({{value}}) + "\n";
  }
  if (!job.step_pattern.empty()) text += "steps: " + ShellLine({{job.step_pattern}}) + "\n";
  return text;
}

std::string NameOfCommand(const std::vector<std::string>& command) {
  // In `python3 -u train.py` the script is a better name than the interpreter.
  std::string_view word = command.empty() ? "job" : std::string_view(command.front());
  for (const std::string& argument : command) {
    if (argument.ends_with(".py") || argument.ends_with(".sh")) {
      word = argument;
      break;
    }
  }
  const size_t slash = word.rfind('/');
  if (slash != std::string_view::npos) word = word.substr(slash + 1);
  const size_t dot = word.rfind('.');
  if (dot != std::string_view::npos && dot > 0) word = word.substr(0, dot);
  std::string name;
  for (const char c : word.substr(0, kLongestName)) name += IsNameCharacter(c) ? c : '-';
  while (!name.empty() && !spec::IsJobName(name)) name.erase(0, 1);  // '-' and '.' first
  return name.empty() ? "job" : name;
}

Result<std::string> ApplySettings(const std::string& json,
                                  const std::vector<std::string>& settings) {
  Json job = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!job.is_object()) return InternalError("a job is not a JSON object");
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return InvalidArgument("--set requires KEY=VALUE, such as --set train.steps=100, not " +
                             Printable(setting));
    }
    const std::string value = setting.substr(equals + 1);
    Json* place = &job;
    for (const std::string_view key : Split(std::string_view(setting).substr(0, equals), '.')) {
      if (!place->is_object() && !place->is_null()) {
        return InvalidArgument("--set " + Printable(setting) + ": this key has no keys below it");
      }
      place = &(*place)[std::string(key)];
    }
    const Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
    *place = parsed.is_discarded() ? Json(value) : parsed;
  }
  return job.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<spec::JobSpec> LoadJob(const JobRequest& request) {
  Result<spec::JobSpec> job = request.file.empty() ? FromCommand(request) : LoadFile(request.file);
  if (!job.ok()) return job;
  const bool array = job->array.size() > 0;
  if (array || !job->after.jobs.empty()) {
    return InvalidArgument(request.file + ": '" + (array ? "array" : "after") +
                           "' is for a controller that runs several jobs: longhaul submit " +
                           request.file + "; longhaul run runs one job");
  }
  std::vector<std::string> settings = request.set;
  const auto add = [&settings](const char* key, const std::optional<uint32_t>& value) {
    if (value.has_value()) settings.push_back(std::string(key) + "=" + std::to_string(*value));
  };
  add("resources.nodes", request.nodes);
  add("resources.minimum_nodes", request.minimum_nodes);
  add("resources.maximum_nodes", request.maximum_nodes);
  add("resources.processes_per_node", request.processes_per_node);
  add("max_restarts", request.max_restarts);
  const auto add_text = [&settings](const char* key, const std::string& value) {
    if (!value.empty()) settings.push_back(std::string(key) + "=" + Json(value).dump());
  };
  add_text("step_pattern", request.step_pattern);
  add_text("hang.stopped", request.stopped_limit);
  add_text("hang.no_step", request.no_step_limit);
  add_text("hang.idle", request.idle_limit);
  add_text("numeric.not_finite", request.not_finite);
  add_text("numeric.spike", request.loss_spike);
  if (!request.fork_server) settings.emplace_back("environment.LONGHAUL_FORK_SERVER=\"0\"");
  add_text("name", request.name);
  if (!settings.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ApplySettings(spec::ToJson(*job), settings));
    job = spec::ParseJob(text, "the command line");
    if (!job.ok()) return job;
  }
  if (request.starts_here && !job->built_in() && job->working_directory.empty()) {
    std::error_code error;
    job->working_directory = std::filesystem::current_path(error).string();
  }
  if (request.inject.empty()) return job;
  Result<std::vector<spec::PlannedFault>> faults = spec::ParseFaultPlan(request.inject);
  if (!faults.ok()) return faults.status().WithContext("--inject");
  job->faults.insert(job->faults.end(), faults->begin(), faults->end());
  const Status sound = spec::CheckFaults(*job);
  if (!sound.ok()) return sound.WithContext("--inject");
  return job;
}

}  // namespace longhaul::frontend
