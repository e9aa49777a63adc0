#include "planner/local/parts/shared_cores.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"

namespace longhaul::planner {
namespace {

class Player {
 public:
  Player(uint32_t cores, const std::vector<std::vector<CoreTask>>& programs,
         const std::vector<std::vector<uint32_t>>& groups)
      : cores_(cores), programs_(programs), groups_(groups), here_(groups.size()) {
    processes_.resize(programs.size());
  }

  double Run() {
    for (uint32_t i = 0; i < processes_.size(); ++i) Begin(i);
    while (true) {
      const size_t active = Active();
      if (active == 0) break;
      const double rate = std::min(1.0, cores_ / static_cast<double>(active));
      double least = std::numeric_limits<double>::infinity();
      for (const Process& process : processes_) {
        if (process.runs) least = std::min(least, process.left);
      }
      now_ += least / rate;
      Pass(least);
    }
    for (uint32_t i = 0; i < processes_.size(); ++i) {
      CHECK(processes_[i].at == programs_[i].size()) << "process " << i << " waits forever";
    }
    return now_;
  }

 private:
  struct Process {
    size_t at = 0;
    double left = 0;  // of the task at hand
    bool runs = false;
  };

  size_t Active() const {
    return static_cast<size_t>(std::count_if(processes_.begin(), processes_.end(),
                                             [](const Process& p) { return p.runs; }));
  }

  // Every one that runs has computed for so long.
  void Pass(double seconds) {
    std::vector<uint32_t> done;
    for (uint32_t i = 0; i < processes_.size(); ++i) {
      Process& process = processes_[i];
      if (!process.runs) continue;
      // Those that end together end at one moment, whatever the rounding.
      constexpr double kSame = 1e-15;
      process.left -= seconds;
      if (process.left <= kSame) done.push_back(i);
    }
    for (const uint32_t i : done) End(i);
  }

  void Start(uint32_t i, double seconds) {
    processes_[i].left = seconds;
    processes_[i].runs = true;
  }

  // The next task of the process, if it need not wait.
  void Begin(uint32_t i) {
    if (processes_[i].at == programs_[i].size()) return;
    const CoreTask& task = programs_[i][processes_[i].at];
    switch (task.kind) {
      case CoreTask::Kind::kCompute:
      case CoreTask::Kind::kSend:
        return Start(i, task.seconds);
      case CoreTask::Kind::kReceive:
        if (sent_[{task.other, i}] > 0) {
          --sent_[{task.other, i}];
          Start(i, task.seconds);
        }
        return;
      case CoreTask::Kind::kMeet:
        if (++here_[task.other] < groups_[task.other].size()) return;
        here_[task.other] = 0;
        for (const uint32_t member : groups_[task.other]) {
          Start(member, programs_[member][processes_[member].at].seconds);
        }
        return;
    }
  }

  void End(uint32_t i) {
    Process& process = processes_[i];
    const CoreTask& task = programs_[i][process.at];
    process.runs = false;
    ++process.at;
    if (task.kind == CoreTask::Kind::kSend) Deliver(i, task.other);
    Begin(i);
  }

  void Deliver(uint32_t from, uint32_t to) {
    ++sent_[{from, to}];
    const Process& receiver = processes_[to];
    if (receiver.runs || receiver.at == programs_[to].size()) return;
    const CoreTask& waits = programs_[to][receiver.at];
    if (waits.kind == CoreTask::Kind::kReceive && waits.other == from) Begin(to);
  }

  const double cores_;
  const std::vector<std::vector<CoreTask>>& programs_;
  const std::vector<std::vector<uint32_t>>& groups_;
  std::vector<size_t> here_;  // of each group: the number of processes that have arrived
  std::vector<Process> processes_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> sent_;  // and not received, by both ends
  double now_ = 0;
};

}  // namespace

double PlayThrough(uint32_t cores, const std::vector<std::vector<CoreTask>>& programs,
                   const std::vector<std::vector<uint32_t>>& groups) {
  CHECK(cores >= 1);
  return Player(cores, programs, groups).Run();
}

}  // namespace longhaul::planner
