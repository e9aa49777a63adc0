#include "scheduler/internal/round/line_turns.h"

#include <algorithm>

namespace longhaul::scheduler::internal {

Seen LineTurns::Versions() const {
  return purpose_ == Purpose::kPreempt ? state_.PreemptVersions() : state_.Versions();
}

bool LineTurns::IsParked(const Line& line) const {
  if (line.jobs.empty()) return true;
  if (purpose_ == Purpose::kPlace) return line.parked && line.parked_at == state_.Versions();
  return line.preempt_parked && line.preempt_parked_at == state_.PreemptVersions();
}

void LineTurns::Park(uint32_t index) {
  Line& line = state_.lines[index];
  if (purpose_ == Purpose::kPlace) {
    line.parked = true;
    line.parked_at = state_.Versions();
  } else {
    line.preempt_parked = true;
    line.preempt_parked_at = state_.PreemptVersions();
  }
}

share::FairOrder LineTurns::Order() const {
  std::vector<char> open(state_.queues.size());
  for (size_t q = 0; q < open.size(); ++q) {
    for (const uint32_t line : state_.lines_of_queue[q]) {
      if (!IsParked(state_.lines[line])) open[q] = 1;
    }
  }
  const auto decayed = [&state = state_](share::QueueIndex queue) {
    return state.decayed.At(static_cast<size_t>(queue), state.now);
  };
  return share::FairOrder(state_.queues, open, decayed, state_.policy.fair_share);
}

LineTurns::Head LineTurns::FirstOf(uint32_t index) const {
  const Line& line = state_.lines[index];
  const auto& [place, number] = line.jobs.begin()->first;
  const JobEntry& job = state_.at(number);
  return {index, number, job.expedited, state_.EffectivePriority(line, job), place};
}

bool LineTurns::After(const Head& a, const Head& b) {
  if (a.expedited != b.expedited) return a.expedited < b.expedited;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.place != b.place) return a.place > b.place;
  return a.first > b.first;
}

void LineTurns::Fill(share::QueueIndex queue, Heap& heap) const {
  heap.seen = Versions();
  heap.heads.clear();
  for (const uint32_t index : state_.lines_of_queue[static_cast<size_t>(queue)]) {
    if (!IsParked(state_.lines[index])) heap.heads.push_back(FirstOf(index));
  }
}

// A queue with one line, the common case, needs no heap. Otherwise the heap is corrected lazily: an
// entry whose line has been parked or whose first job has left is replaced only when it reaches the
// top. A change of the versions can open parked lines again, which no entry stands for, so the heap
// is filled anew.
JobNumber LineTurns::HeadOf(share::QueueIndex queue) {
  const auto& open = state_.lines_of_queue[static_cast<size_t>(queue)];
  if (open.size() <= 1) {
    if (open.empty() || IsParked(state_.lines[*open.begin()])) return kNoJob;
    return state_.lines[*open.begin()].jobs.begin()->second;
  }
  const auto [found, fresh] = heaps_.try_emplace(queue);
  Heap& heap = found->second;
  if (fresh || !(heap.seen == Versions())) {
    Fill(queue, heap);
    std::make_heap(heap.heads.begin(), heap.heads.end(), After);
  }
  while (!heap.heads.empty()) {
    const Head top = heap.heads.front();
    const Line& line = state_.lines[top.line];
    const bool parked = IsParked(line);
    if (!parked && line.jobs.begin()->second == top.first) return top.first;
    std::pop_heap(heap.heads.begin(), heap.heads.end(), After);
    heap.heads.pop_back();
    if (parked) continue;
    // Its first job has started: the line takes the turn of the next one.
    heap.heads.push_back(FirstOf(top.line));
    std::push_heap(heap.heads.begin(), heap.heads.end(), After);
  }
  return kNoJob;
}

}  // namespace longhaul::scheduler::internal
