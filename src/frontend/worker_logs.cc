#include "frontend/worker_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/fd.h"

namespace longhaul::frontend {
namespace {

constexpr size_t kBytesAtOnce = 256 << 10;
constexpr size_t kLongestLine = 8 << 10;

// Progress bars draw over themselves: what counts is what was drawn last.
std::string WithoutOverwritten(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t last = line.rfind('\r');
  return std::string(last == std::string_view::npos ? line : line.substr(last + 1));
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

WorkerLogs::WorkerLogs(std::string run_directory) : folder_(std::move(run_directory) + "/logs") {
  // Workers append. What is there already is an earlier run's, when this one resumes it.
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder_, error), end; at != end && !error;
       at.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = at->file_size(gone);
    if (!gone) earlier_[at->path().string()] = bytes;
  }
}

void WorkerLogs::Follow(uint64_t attempt, uint32_t world) {
  std::erase_if(logs_, [attempt](const auto& entry) { return entry.first.first + 1 < attempt; });
  for (uint32_t rank = 0; rank < world; ++rank) {
    const auto [entry, is_new] = logs_.try_emplace({attempt, rank});
    if (!is_new) continue;
    Log& log = entry->second;
    log.path =
        folder_ + "/attempt-" + std::to_string(attempt) + "/rank-" + std::to_string(rank) + ".log";
    const auto earlier = earlier_.find(log.path);
    if (earlier != earlier_.end()) log.offset = earlier->second;
  }
}

bool WorkerLogs::ReadLog(const Key& key, Log& log, std::vector<WorkerLine>& lines) const {
  const io::Fd file(open(log.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;  // not started yet
  const size_t before = log.unfinished.size();
  log.unfinished.resize(before + kBytesAtOnce);
  const ssize_t got = pread(file.get(), log.unfinished.data() + before, kBytesAtOnce,
                            static_cast<off_t>(log.offset));
  log.unfinished.resize(before + static_cast<size_t>(got > 0 ? got : 0));
  if (got <= 0) return false;
  log.offset += static_cast<uint64_t>(got);
  size_t begin = 0;
  for (;;) {
    const size_t end = log.unfinished.find('\n', begin);
    const bool whole = end != std::string::npos;
    if (!whole && log.unfinished.size() - begin <= kLongestLine) break;
    const size_t length = whole && end - begin <= kLongestLine ? end - begin : kLongestLine;
    lines.push_back({key.first, key.second,
                     WithoutOverwritten(std::string_view(log.unfinished).substr(begin, length))});
    begin += length + (whole && begin + length == end ? 1 : 0);
  }
  log.unfinished.erase(0, begin);
  return true;
}

std::string LinePrefix(const std::string& pattern, const std::string& role, uint32_t rank,
                       uint32_t local_ranks) {
  if (pattern.empty()) return "[rank " + std::to_string(rank) + "] ";
  const std::pair<std::string, std::string> values[] = {
      {"${role_name}", role},
      {"${rank}", std::to_string(rank)},
      {"${local_rank}", std::to_string(rank % local_ranks)},
      {"${hostname}", pattern.find("${hostname}") == std::string::npos ? "" : HostName()},
  };
  std::string prefix;
  for (size_t at = 0; at < pattern.size();) {
    const auto macro = std::ranges::find_if(values, [&](const auto& each) {
      return std::string_view(pattern).substr(at).starts_with(each.first);
    });
    prefix += macro == std::end(values) ? pattern.substr(at, 1) : macro->second;
    at += macro == std::end(values) ? 1 : macro->first.size();
  }
  return prefix;
}

std::vector<WorkerLine> WorkerLogs::Read() {
  std::vector<WorkerLine> lines;
  for (auto& [key, log] : logs_) (void)ReadLog(key, log, lines);
  return lines;
}

std::vector<WorkerLine> WorkerLogs::ReadRest() {
  std::vector<WorkerLine> lines;
  for (auto& [key, log] : logs_) {
    while (ReadLog(key, log, lines)) {
    }
    if (log.unfinished.empty()) continue;
    lines.push_back({key.first, key.second, WithoutOverwritten(log.unfinished)});
    log.unfinished.clear();
  }
  return lines;
}

}  // namespace longhaul::frontend
