// Runs schedules on threads, one a rank, whose computations are waits of a known time, and compares
// the measured idle time with the formulas of the papers.
//
//   bubble_bench [MILLISECONDS OF A COMPUTATION]
//
// In the first two, B is both parts of the backward and takes twice the time of F, and W none; in
// the others F = B = W. With p ranks, m micro-batches and v chunks a rank, the share of the time
// that a rank is idle is
//   one forward, one backward   (p - 1) / (m + p - 1)
//   interleaved                 (p - 1) / (v m + p - 1)
//   ZB-1P                       (p - 1) / (3 m + p - 1)   (Qi et al., ICLR 2024, table 2)
//   ZB-2P                       0
// between the begin of its first computation and the end of its last one for ZB-2P, and of the
// whole step for the others.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/generate.h"
#include "schedule/search.h"
#include "schedule/verify.h"

namespace longhaul::schedule {
namespace {

using Clock = std::chrono::steady_clock;

// What has been sent and not been received yet.
class Links {
 public:
  void Send(const Transfer& transfer) {
    const std::lock_guard lock(mutex_);
    sent_.insert(transfer);
    changed_.notify_all();
  }
  void Receive(const Transfer& transfer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return sent_.contains(transfer); });
    sent_.erase(transfer);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Transfer> sent_;
};

struct Times {
  Clock::duration forward;
  Clock::duration backward;
  Clock::duration weights;

  Clock::duration Of(Kind kind) const {
    return kind == Kind::kForward ? forward : kind == Kind::kBackward ? backward : weights;
  }
};

struct Busy {
  Clock::time_point begin;
  Clock::time_point end;
  Clock::duration computed{};
};

// A rank computes by waiting: the cores are few, and the waits of several ranks overlap.
Busy RunRank(const Schedule& schedule, uint32_t rank, const Times& times, Links& links) {
  Busy busy;
  busy.begin = Clock::time_point::max();
  for (const Group& group : schedule.ranks[rank]) {
    for (const Action& action : group) {
      if (action.Sends()) links.Send(TransferOf(schedule.shape, rank, action));
    }
    for (const Action& action : group) {
      if (action.Computes()) {
        const Clock::duration time = times.Of(action.kind);
        if (time == Clock::duration::zero()) continue;
        const Clock::time_point begin = Clock::now();
        busy.begin = std::min(busy.begin, begin);
        std::this_thread::sleep_until(begin + time);
        busy.end = Clock::now();
        busy.computed += time;
      } else if (!action.Sends()) {
        links.Receive(TransferOf(schedule.shape, rank, action));
      }
    }
  }
  return busy;
}

struct Idle {
  double of_step = 0;
  double within_ranks = 0;  // the largest share between a rank's first and last computation
};

double Share(Clock::duration part, Clock::duration whole) {
  return std::chrono::duration<double>(part) / std::chrono::duration<double>(whole);
}

Idle Measure(const Schedule& schedule, const Times& times) {
  const uint32_t ranks = schedule.shape.ranks;
  std::vector<Busy> busy(ranks);
  std::vector<std::thread> threads;
  Links links;
  std::barrier together(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      together.arrive_and_wait();
      busy[rank] = RunRank(schedule, rank, times, links);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Idle idle;
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end;
  Clock::duration computed{};
  for (const Busy& one : busy) {
    begin = std::min(begin, one.begin);
    end = std::max(end, one.end);
    computed += one.computed;
    idle.within_ranks = std::max(idle.within_ranks, 1 - Share(one.computed, one.end - one.begin));
  }
  idle.of_step = 1 - Share(computed, (end - begin) * ranks);
  return idle;
}

struct Row {
  std::string name;
  Schedule schedule;
  double formula = 0;
  bool split = false;  // the backward is in two parts
  bool within_ranks = false;
};

std::vector<Row> Rows(uint32_t ranks, uint32_t micro_batches) {
  const double p = ranks;
  const double m = micro_batches;
  std::vector<Row> rows;
  rows.push_back({"one forward, one backward", OneForwardOneBackward(ranks, micro_batches),
                  (p - 1) / (m + p - 1)});
  const Result<Schedule> interleaved = Interleaved(ranks, micro_batches, 2);
  CHECK(interleaved.ok());
  rows.push_back({"interleaved, 2 chunks", *interleaved, (p - 1) / (2 * m + p - 1)});
  const auto search = [&](uint32_t activations) {
    SearchOptions options;
    options.most_activations = activations;
    const Result<Schedule> found =
        Search({.ranks = ranks, .micro_batches = micro_batches}, options);
    CHECK(found.ok());
    return *found;
  };
  rows.push_back({"searched, memory of ZB-1P", search(ranks), (p - 1) / (3 * m + p - 1), true});
  rows.push_back({"searched, memory of ZB-2P", search(2 * ranks - 1), 0, true, true});
  return rows;
}

int Main(int count, char** arguments) {
  const double milliseconds = count > 1 ? std::atof(arguments[1]) : 20;
  if (!(milliseconds > 0 && milliseconds <= 1'000)) {
    std::fprintf(stderr, "usage: bubble_bench [milliseconds of a computation, at most 1000]\n");
    return 2;
  }
  const auto time = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
  std::printf(
      "ranks micro-batches schedule                     idle, formula  measured  difference\n");
  constexpr size_t kRuns = 3;
  for (const auto& [ranks, micro_batches] : {std::pair{2u, 6u}, {4u, 8u}, {4u, 12u}, {8u, 24u}}) {
    for (const Row& row : Rows(ranks, micro_batches)) {
      std::vector<double> measured;
      for (size_t run = 0; run < kRuns; ++run) {
        const Times times =
            row.split ? Times{time, time, time} : Times{time, 2 * time, Clock::duration::zero()};
        const Idle idle = Measure(row.schedule, times);
        measured.push_back(row.within_ranks ? idle.within_ranks : idle.of_step);
      }
      std::sort(measured.begin(), measured.end());
      const double median = measured[kRuns / 2];
      std::printf("%5u %13u %-28s %12.2f %% %7.2f %% %8.2f points\n", ranks, micro_batches,
                  row.name.c_str(), 100 * row.formula, 100 * median, 100 * (median - row.formula));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace longhaul::schedule

int main(int count, char** arguments) { return longhaul::schedule::Main(count, arguments); }
