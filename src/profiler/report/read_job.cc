#include "profiler/report/read_job.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "profiler/rank/step_window.h"
#include "profiler/read/nsight_reader.h"

namespace longhaul::profiler {
namespace {

// A job's findings take so many times the memory of its summaries, with them; measured.
constexpr double kProfileOverSummaries = 4;
constexpr double kNotable = 1.2;  // the longest step over the median

double MiB(double bytes) { return bytes / (1 << 20); }

// Reads all traces within a budget of memory. If the summaries are too large, all traces are read
// again with fewer steps. Whether they fit depends on their sum alone, so the result does not
// depend on the order in which threads finish.
class JobReader {
 public:
  JobReader(const std::vector<std::string>& paths, const ReadJobOptions& options)
      : paths_(paths), options_(options) {
    const size_t cores =
        options.threads > 0 ? options.threads : std::thread::hardware_concurrency();
    threads_ = std::clamp<size_t>(cores, 1, std::max<size_t>(paths.size(), 1));
    budget_ = static_cast<double>(options.max_memory_bytes) / kProfileOverSummaries;
    at_work_bytes_ = options.max_memory_bytes - static_cast<size_t>(budget_);
    for (const std::string& path : paths) {
      std::error_code error;
      const uintmax_t size = std::filesystem::file_size(path, error);
      sizes_.push_back(error ? 0 : size);
    }
  }

  Result<RankSummaries> Run() {
    RankSummaries result;
    ASSIGN_OR_RETURN(bool fit, Attempt(options_.summary, &result.ranks));
    if (!skipped_.empty() && skipped_.size() == paths_.size()) return NoTraceAmong(Skipped());
    if (fit) return WithSkipped(std::move(result));
    if (!(options_.summary.steps == StepWindow())) return TooSmall("the steps asked for need more");
    ASSIGN_OR_RETURN(const Steps all, StepsOfTheFirst());
    const size_t steps = all.lengths.size();
    // Traces may be less alike than their sizes: with fewer steps then, and fewer again.
    constexpr double kMargin = 0.9;
    auto count = static_cast<size_t>(kMargin * budget_ / all.bytes_a_step);
    for (count = std::min(count, steps - 1); count > 0; count = count * 3 / 4) {
      const size_t first = TypicalSteps(all.lengths, count);
      SummaryOptions some = options_.summary;
      some.steps = {all.numbers[first], all.numbers[first + count - 1]};
      ASSIGN_OR_RETURN(fit, Attempt(some, &result.ranks));
      if (!fit) continue;
      result.left_out = LeftOut(all, first, count);
      return WithSkipped(std::move(result));
    }
    return TooSmall("one step of all ranks needs about " +
                    std::to_string(std::llround(MiB(all.bytes_a_step * kProfileOverSummaries))) +
                    " MiB");
  }

 private:
  // Of the first trace.
  struct Steps {
    std::vector<std::string> names;
    std::vector<int64_t> numbers;
    std::vector<double> lengths;  // s
    double bytes_a_step = 0;      // of all ranks' summaries, by the sizes of their files
  };

  // Reads all; false if their summaries are too large, by their sum and not by their order. Of
  // traces that are too large to be read at the same time, fewer are.
  Result<bool> Attempt(const SummaryOptions& summary, std::vector<RankSummary>* ranks) {
    for (;; threads_ /= 2) {
      const Result<bool> fit = AttemptAtOnce(summary, ranks);
      const bool full = !fit.ok() && fit.status().code() == Code::kResourceExhausted;
      if (!full || threads_ == 1) return fit;
    }
  }

  Result<bool> AttemptAtOnce(const SummaryOptions& summary, std::vector<RankSummary>* ranks) {
    ranks->clear();
    ranks->resize(paths_.size());
    skipped_.clear();
    std::vector<Status> failures(paths_.size());
    std::atomic<size_t> next = 0, bytes = 0;
    read_ = 0;
    // Each thread takes the next file and writes entries of its own. Threads stop early where the
    // sum is over the budget; the attempt has failed then, whatever the others find.
    const auto work = [&] {
      for (size_t i = next++; i < paths_.size(); i = next++) {
        if (static_cast<double>(bytes) > budget_) return;
        failures[i] = Read(paths_[i], summary, &(*ranks)[i]);
        bytes += MemoryOf((*ranks)[i]);
        if (failures[i].ok()) failures[i] = Tell(sizes_[i]);
        if (failures[i].code() == Code::kCancelled) next = paths_.size();
      }
    };
    std::vector<std::thread> pool;
    for (size_t t = 1; t < threads_; ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    if (static_cast<double>(bytes) > budget_) {
      ranks->clear();
      return false;
    }
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (MaySkip(i, failures[i])) {
        skipped_.emplace(i, failures[i].message());
      } else {
        RETURN_IF_ERROR(failures[i]);
      }
    }
    // From the last to the first, so that the places that remain stay valid.
    for (auto it = skipped_.rbegin(); it != skipped_.rend(); ++it) {
      ranks->erase(ranks->begin() + static_cast<ptrdiff_t>(it->first));
    }
    return true;
  }

  std::vector<std::string> Skipped() const {
    std::vector<std::string> messages;
    for (const auto& [place, message] : skipped_) messages.push_back(message);
    return messages;
  }

  Status Tell(uint64_t bytes) {
    if (!options_.progress) return {};
    const std::lock_guard lock(telling_);
    read_ += bytes;
    const uint64_t all = std::accumulate(sizes_.begin(), sizes_.end(), uint64_t{0});
    return options_.progress(read_, all) ? Status() : CancelledError("stopped");
  }

  // kResourceExhausted if the trace doesn't fit.
  Status Read(const std::string& path, const SummaryOptions& summary, RankSummary* into) const {
    ReadOptions read;
    read.max_memory_bytes = at_work_bytes_ / threads_;
    read.found = options_.found.contains(path);
    ASSIGN_OR_RETURN(const RankTrace trace, ReadTraceFile(path, read));
    if (trace.report.full) {
      return ResourceExhausted(path + ": its events don't fit into --memory-mib " +
                               std::to_string(options_.max_memory_bytes >> 20));
    }
    ASSIGN_OR_RETURN(*into, Summarize(trace, summary));
    return {};
  }

  RankSummaries WithSkipped(RankSummaries result) const {
    result.skipped = Skipped();
    return result;
  }

  bool MaySkip(size_t place, const Status& failure) const {
    return HoldsNoTrace(failure) && options_.found.contains(paths_[place]);
  }

  Result<Steps> StepsOfTheFirst() const {
    RankSummary summary;
    size_t place = 0;
    Status failure = Read(paths_[place], options_.summary, &summary);
    while (MaySkip(place, failure) && place + 1 < paths_.size()) {
      failure = Read(paths_[++place], options_.summary, &summary);
    }
    RETURN_IF_ERROR(failure);
    if (summary.steps.size() < 2) return TooSmall("traces of one step or none need more");
    Steps all;
    all.numbers = StepNumbers(summary.steps);
    for (const Step& step : summary.steps) {
      all.names.push_back(Printable(step.name, 60));
      all.lengths.push_back(static_cast<double>(step.end_ns - step.begin_ns) * 1e-9);
    }
    // Where sizes are unknown the others count as much as the first.
    const double own = static_cast<double>(sizes_[place]);
    const double sizes = std::accumulate(sizes_.begin(), sizes_.end(), 0.0);
    all.bytes_a_step = static_cast<double>(MemoryOf(summary)) *
                       (own > 0 ? sizes / own : static_cast<double>(paths_.size())) /
                       static_cast<double>(all.lengths.size());
    return all;
  }

  std::string LeftOut(const Steps& all, size_t first, size_t count) const {
    const std::vector<double>& lengths = all.lengths;
    char text[600];
    std::snprintf(text, sizeof(text),
                  "%zu of %zu steps are looked at, %s to %s: all would need about %.0f MiB, "
                  "--memory-mib is %.0f",
                  count, lengths.size(), all.names[first].c_str(),
                  all.names[first + count - 1].c_str(),
                  MiB(all.bytes_a_step * double(lengths.size()) * kProfileOverSummaries),
                  MiB(double(options_.max_memory_bytes)));
    std::string sentence = text;
    const auto longest =
        static_cast<size_t>(std::max_element(lengths.begin() + 1, lengths.end()) - lengths.begin());
    std::vector<double> sorted = lengths;
    std::sort(sorted.begin(), sorted.end());
    const double over = lengths[longest] / std::max(1e-9, sorted[sorted.size() / 2]);
    if (over < kNotable || (longest >= first && longest < first + count)) return sentence;
    std::snprintf(text, sizeof(text),
                  "; %s, which took %.1f times the median, is not: --steps %lld",
                  all.names[longest].c_str(), over, static_cast<long long>(all.numbers[longest]));
    return sentence + text;
  }

  Status TooSmall(const std::string& what) const {
    char text[200];
    std::snprintf(text, sizeof(text),
                  "%s, and --memory-mib is %.0f: give more, or name fewer of the %zu traces",
                  what.c_str(), MiB(double(options_.max_memory_bytes)), paths_.size());
    return ResourceExhausted(text);
  }

  const std::vector<std::string>& paths_;
  const ReadJobOptions& options_;
  size_t threads_ = 1;
  double budget_ = 0;                      // bytes of all summaries
  size_t at_work_bytes_ = 0;               // of all traces at work
  std::vector<uint64_t> sizes_;            // of the files
  std::map<size_t, std::string> skipped_;  // by place in the paths, with the reason
  std::mutex telling_;
  uint64_t read_ = 0;
};

}  // namespace

bool HoldsNoTrace(const Status& status) {
  return status.code() == Code::kInvalidArgument || status.code() == Code::kDataLoss;
}

Status NoTraceAmong(const std::vector<std::string>& skipped) {
  constexpr size_t kMost = 5;
  std::string list;
  for (size_t i = 0; i < std::min(skipped.size(), kMost); ++i) {
    list += (i == 0 ? "" : "; ") + skipped[i];
  }
  if (skipped.size() > kMost) list += "; and " + std::to_string(skipped.size() - kMost) + " more";
  return NotFound("none of the " + std::to_string(skipped.size()) +
                  " files looked at holds a trace: " + list);
}

Result<RankTrace> ReadTraceFile(const std::string& path, const ReadOptions& options) {
  {
    ASSIGN_OR_RETURN(const auto head, OpenFile(path));
    std::array<char, 16> bytes = {};
    size_t size = 0;
    while (size < bytes.size()) {
      const Result<size_t> got = head->Read(std::span(bytes).subspan(size));
      if (!got.ok() || *got == 0) break;
      size += *got;
    }
    if (IsSqlite({bytes.data(), size})) return ReadNsight(path);
  }
  ASSIGN_OR_RETURN(const auto source, OpenFile(path));
  return ReadKineto(*source, path, options);
}

size_t TypicalSteps(const std::vector<double>& lengths, size_t count) {
  CHECK(count >= 1 && count <= lengths.size());
  if (count == lengths.size()) return 0;
  std::vector<double> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  // The first step is never among them. Quadratic in the steps, of which a trace has few.
  size_t best = 1;
  double best_off = HUGE_VAL;
  for (size_t first = 1; first + count <= lengths.size(); ++first) {
    const auto begin = lengths.begin() + static_cast<int64_t>(first);
    const double sum = std::accumulate(begin, begin + static_cast<int64_t>(count), 0.0);
    const double off = std::abs(sum / static_cast<double>(count) - median);
    if (off < best_off) {
      best_off = off;
      best = first;
    }
  }
  return best;
}

Result<RankSummaries> ReadJob(const std::vector<std::string>& paths,
                              const ReadJobOptions& options) {
  return JobReader(paths, options).Run();
}

}  // namespace longhaul::profiler
