#include "runtime/controller/job/hang/stack_groups.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"

namespace longhaul::runtime::controller {
namespace {

constexpr size_t kShownCalls = 3;
constexpr size_t kShownRanks = 8;
constexpr size_t kShownGroups = 4;

// Parts of the names of calls of Python and of native ones.
constexpr std::array<std::string_view, 11> kCollectives = {
    "all_reduce", "allreduce",  "all_gather", "allgather",           "reduce_scatter", "broadcast",
    "barrier",    "all_to_all", "alltoall",   "distributed_c10d.py", "wait_for_others"};
// Of PyTorch's back ends, NCCL and MPI: what the names of their native calls begin with. A file
// without names for its calls is one call: "libnccl.so.2+?".
constexpr std::array<std::string_view, 15> kNativeCollectives = {
    "c10d::",        "gloo::",      "MPI_",         "PMPI_",        "ncclAll",
    "ncclBroadcast", "ncclBcast",   "ncclRecv",     "ncclSend",     "ncclReduce",
    "ncclGather",    "ncclScatter", "ncclGroupEnd", "ncclCommInit", "libnccl.so"};
// Calls of one process, although their names have such parts: pthread_barrier_wait.
constexpr std::array<std::string_view, 3> kOfOneProcess = {"pthread_", "std::", "at::"};

bool IsCollective(std::string_view call) {
  const auto begins = [call](std::string_view name) { return call.starts_with(name); };
  const auto has = [call](std::string_view name) {
    return call.find(name) != std::string_view::npos;
  };
  if (std::any_of(kOfOneProcess.begin(), kOfOneProcess.end(), begins)) return false;
  return std::any_of(kNativeCollectives.begin(), kNativeCollectives.end(), begins) ||
         std::any_of(kCollectives.begin(), kCollectives.end(), has);
}

std::string RanksText(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "worker" : "workers";
  for (size_t i = 0; i < ranks.size() && i < kShownRanks; ++i) {
    text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kShownRanks) {
    text += " and " + std::to_string(ranks.size() - kShownRanks) + " more";
  }
  return text;
}

// A native call that says little beside the ones that it is made by, such as __nanosleep.
bool IsOfLibrary(std::string_view call) {
  constexpr std::array<std::string_view, 6> kNames = {"sleep",  "usleep",      "nanosleep",
                                                      "__poll", "__nanosleep", "__libc_start_main"};
  return call.ends_with("+?") || call.starts_with("pthread_") || call.starts_with("std::") ||
         std::find(kNames.begin(), kNames.end(), call) != kNames.end();
}

// The innermost call, and those below it that are not of a library.
std::string StackLine(const std::string& stack) {
  if (stack.empty()) return "unknown";
  std::string line;
  size_t shown = 0;
  for (const std::string_view call : Split(stack, '\n')) {
    if (call.empty() || (shown > 0 && IsOfLibrary(call))) continue;
    if (shown == kShownCalls) return line + " < ...";
    line += (shown++ == 0 ? "" : " < ") + std::string(call);
  }
  return line;
}

// Those that are stopped; and of the others, the ones that do not wait where some do, or else all
// but the majority.
std::vector<uint32_t> OutliersOf(const std::vector<StackGroup>& groups, size_t workers) {
  std::vector<uint32_t> found;
  const auto take = [&found](const StackGroup& group) {
    found.insert(found.end(), group.ranks.begin(), group.ranks.end());
  };
  std::vector<const StackGroup*> others;  // the largest first
  for (const StackGroup& group : groups) {
    if (!group.stopped) others.push_back(&group);
  }
  if (others.empty()) return found;
  for (const StackGroup& group : groups) {
    if (group.stopped) take(group);
  }
  const size_t not_stopped = workers - found.size();
  const auto waits = [](const StackGroup* group) { return group->waits; };
  const bool some_wait = std::any_of(others.begin(), others.end(), waits);
  size_t differing = 0;
  for (const StackGroup* group : others) {
    if (!some_wait || group->waits || group->stack.empty()) continue;
    take(*group);
    ++differing;
  }
  // Beside a stopped worker, all that wait may do so in different places.
  const bool explained = differing > 0 || (some_wait && not_stopped < workers);
  if (!explained && 2 * others.front()->ranks.size() > not_stopped) {
    for (size_t i = 1; i < others.size(); ++i) take(*others[i]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool WaitsForOthers(const std::string& stack) {
  const std::vector<std::string_view> calls = Split(stack, '\n');
  return std::any_of(calls.begin(), calls.end(), IsCollective);
}

StackGroups GroupStacks(const std::vector<WorkerStack>& workers) {
  std::map<std::string, StackGroup> by_text;
  for (const WorkerStack& worker : workers) {
    StackGroup& group = by_text[worker.state == "T" ? "stopped (state T)" : worker.stack];
    group.stopped = worker.state == "T";
    group.ranks.push_back(worker.rank);
  }
  StackGroups result;
  for (auto& [text, group] : by_text) {
    group.stack = text;
    group.hash = Hash64(std::string_view(text));
    group.waits = WaitsForOthers(text);
    std::sort(group.ranks.begin(), group.ranks.end());
    result.groups.push_back(group);
  }
  std::sort(result.groups.begin(), result.groups.end(),
            [](const StackGroup& one, const StackGroup& other) {
              if (one.ranks.size() != other.ranks.size()) {
                return one.ranks.size() > other.ranks.size();
              }
              return one.ranks.front() < other.ranks.front();
            });
  result.outliers = OutliersOf(result.groups, workers.size());
  return result;
}

std::string Describe(const StackGroups& groups) {
  if (groups.groups.empty()) return "";
  std::string text;
  if (!groups.outliers.empty()) {
    text = RanksText(groups.outliers) + (groups.outliers.size() == 1 ? " differs from the others; "
                                                                     : " differ from the others; ");
  }
  for (size_t i = 0; i < groups.groups.size() && i < kShownGroups; ++i) {
    const StackGroup& group = groups.groups[i];
    std::array<char, 16> hash{};
    std::snprintf(hash.data(), hash.size(), "%08x", static_cast<unsigned>(group.hash >> 32));
    text += (i == 0 ? "" : "; ") + RanksText(group.ranks) + " [" + hash.data() +
            "]: " + StackLine(group.stack);
  }
  if (groups.groups.size() > kShownGroups) {
    text += "; and " + std::to_string(groups.groups.size() - kShownGroups) + " other stacks";
  }
  return text;
}

}  // namespace longhaul::runtime::controller
