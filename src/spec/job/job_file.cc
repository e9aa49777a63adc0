#include "spec/job/job_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/job_reader.h"

namespace longhaul::spec {
namespace {

using internal::Node;

// The jobs of a list in an order in which each comes after those that it names.
class Order {
 public:
  explicit Order(JobFile& file) : file_(file), marks_(file.jobs.size(), Mark::kNew) {}

  // Returns the cycle if there is one.
  Status Sort(std::string_view source) {
    for (size_t first = 0; first < file_.jobs.size(); ++first) {
      if (marks_[first] != Mark::kNew) continue;
      RETURN_IF_ERROR(Visit(first, source));
    }
    std::vector<JobSpec> sorted;
    sorted.reserve(order_.size());
    for (const size_t job : order_) sorted.push_back(std::move(file_.jobs[job]));
    file_.jobs = std::move(sorted);
    return {};
  }

 private:
  enum class Mark { kNew, kOpen, kDone };

  // Visits what `first` depends on. The path is a list, so that a long chain needs no stack.
  Status Visit(size_t first, std::string_view source) {
    std::vector<std::pair<size_t, size_t>> path = {{first, 0}};  // the job, and its next name
    marks_[first] = Mark::kOpen;
    while (!path.empty()) {
      const size_t job = path.back().first;
      const std::vector<std::string>& names = file_.jobs[job].after.jobs;
      if (path.back().second == names.size()) {
        marks_[job] = Mark::kDone;
        order_.push_back(job);
        path.pop_back();
        continue;
      }
      const auto next = file_.Find(names[path.back().second++]);
      if (!next || marks_[next->job] == Mark::kDone) continue;
      if (marks_[next->job] == Mark::kOpen) return Cycle(path, next->job, source);
      marks_[next->job] = Mark::kOpen;
      path.emplace_back(next->job, 0);
    }
    return {};
  }

  Status Cycle(const std::vector<std::pair<size_t, size_t>>& path, size_t again,
               std::string_view source) const {
    std::vector<std::string> names;
    auto from = std::find_if(path.begin(), path.end(),
                             [&](const auto& step) { return step.first == again; });
    for (; from != path.end(); ++from) names.push_back(file_.jobs[from->first].name);
    names.push_back(file_.jobs[again].name);
    return InvalidArgument(std::string(source) +
                           ": after: these jobs wait for each other, so none could start: " +
                           Join(names, " -> ") + "; remove one of these names from 'after'");
  }

  JobFile& file_;
  std::vector<Mark> marks_;
  std::vector<size_t> order_;
};

Status Refuse(const Node& node, std::string_view source, const std::string& why) {
  return InvalidArgument(std::string(source) + ":" + std::to_string(node.line) + ": " + why);
}

Status CheckRoot(const Node& root, const Node& jobs, std::string_view source) {
  for (const Node& child : root.children) {
    if (child.key == "jobs") continue;
    return InvalidArgument(std::string(source) + ":" + std::to_string(child.key_line) + ": " +
                           Printable(child.key, 40) +
                           ": beside 'jobs' no other key is known; each job of the list has its "
                           "own keys");
  }
  if (jobs.kind != Node::Kind::kList || jobs.children.empty()) {
    return Refuse(jobs, source, "jobs: must be a list of at least one job");
  }
  if (jobs.children.size() > kMaxJobsInFile) {
    return Refuse(jobs, source,
                  "jobs: has " + std::to_string(jobs.children.size()) + " jobs: at most 1,000");
  }
  return {};
}

}  // namespace

std::optional<JobReference> JobFile::Find(std::string_view name) const {
  const auto named = [&](std::string_view wanted) {
    return std::find_if(jobs.begin(), jobs.end(),
                        [&](const JobSpec& job) { return job.name == wanted; });
  };
  const auto exact = named(name);
  if (exact != jobs.end()) return JobReference{static_cast<size_t>(exact - jobs.begin()), {}};
  const size_t line = name.rfind('_');
  if (line == std::string_view::npos) return std::nullopt;
  const auto index = ParseUint64(name.substr(line + 1));
  const auto array = named(name.substr(0, line));
  if (!index.ok() || array == jobs.end() || *index >= array->array.size()) return std::nullopt;
  return JobReference{static_cast<size_t>(array - jobs.begin()), static_cast<uint32_t>(*index)};
}

Result<JobFile> ParseJobFile(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const Node root, internal::ParseDocument(text, source));
  JobFile file;
  const Node* jobs = internal::Find(root, "jobs");
  if (jobs == nullptr) {
    ASSIGN_OR_RETURN(JobSpec job, internal::ReadJob(root, source));
    file.jobs.push_back(std::move(job));
    return file;
  }
  RETURN_IF_ERROR(CheckRoot(root, *jobs, source));
  file.several = true;
  std::map<std::string, int> lines;  // of the names
  std::vector<std::string> mistakes;
  for (const Node& node : jobs->children) {
    if (node.kind == Node::Kind::kMap && internal::Find(node, "name") == nullptr) {
      mistakes.push_back(
          Refuse(node, source, "name: is missing: each job of a list needs one").message());
      continue;
    }
    Result<JobSpec> job = internal::ReadJob(node, source);
    if (!job.ok()) {
      mistakes.push_back(job.status().message());
      continue;
    }
    const auto [known, fresh] = lines.emplace(job->name, node.line);
    if (!fresh) {
      mistakes.push_back(Refuse(node, source,
                                "name: job '" + job->name + "' of line " +
                                    std::to_string(known->second) + " has the same name")
                             .message());
    }
    file.jobs.push_back(*std::move(job));
  }
  constexpr size_t kMostMistakes = 10;
  if (mistakes.size() > kMostMistakes) mistakes.resize(kMostMistakes);
  if (!mistakes.empty()) return InvalidArgument(Join(mistakes, "\n"));
  RETURN_IF_ERROR(Order(file).Sort(source));
  return file;
}

}  // namespace longhaul::spec
