#include "io/process/process_table.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "base/text.h"
#include "io/files/file.h"

namespace longhaul::io {
namespace {

constexpr uint64_t kLongestLine = 4096;

std::optional<uint64_t> Number(std::string_view text) {
  const Result<uint64_t> number = ParseUint64(text);
  return number.ok() ? std::optional(*number) : std::nullopt;
}

}  // namespace

std::optional<ProcessRow> ParseProcessRow(std::string_view stat) {
  // proc(5): the number, the name in brackets, which may hold anything, then the state, the parent,
  // the group and the session; the threads are the 18th after the name.
  constexpr size_t kParent = 1, kSession = 3, kThreads = 17;
  const size_t name_end = stat.rfind(')');
  const size_t space = stat.find(' ');
  if (name_end == std::string_view::npos || name_end + 2 > stat.size() || space > name_end) {
    return std::nullopt;
  }
  const std::vector<std::string_view> fields = Split(stat.substr(name_end + 2), ' ');
  if (fields.size() <= kThreads) return std::nullopt;
  const auto process = Number(stat.substr(0, space));
  const auto parent = Number(fields[kParent]);
  const auto session = Number(fields[kSession]);
  const auto threads = Number(fields[kThreads]);
  if (!process || !parent || !session || !threads) return std::nullopt;
  const bool still = fields[0].find_first_of("TtZX") == 0;
  return ProcessRow{static_cast<pid_t>(*process), static_cast<pid_t>(*parent),
                    static_cast<pid_t>(*session), *threads, still};
}

std::vector<ProcessRow> ListProcesses() {
  std::vector<ProcessRow> rows;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; at != end && !error;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() < '0' || name.front() > '9') continue;
    const Result<std::string> stat = ReadText("/proc/" + name + "/stat", kLongestLine);
    if (!stat.ok()) continue;  // it has ended meanwhile
    if (const auto row = ParseProcessRow(*stat)) rows.push_back(*row);
  }
  return rows;
}

std::vector<ProcessRow> RowsBelow(const std::vector<ProcessRow>& rows,
                                  const std::set<pid_t>& roots) {
  std::multimap<pid_t, const ProcessRow*> by_parent;
  std::set<pid_t> taken;
  std::vector<const ProcessRow*> below;
  const auto take = [&](const ProcessRow& row) {
    if (taken.insert(row.process).second) below.push_back(&row);
  };
  for (const ProcessRow& row : rows) {
    by_parent.emplace(row.parent, &row);
    if (roots.contains(row.process) || roots.contains(row.session)) take(row);
  }
  std::vector<ProcessRow> found;
  for (size_t i = 0; i < below.size(); ++i) {
    found.push_back(*below[i]);
    const auto [first, last] = by_parent.equal_range(below[i]->process);
    for (auto child = first; child != last; ++child) take(*child->second);
  }
  return found;
}

std::optional<uint64_t> ParseTasksOfMachine(std::string_view loadavg) {
  // "0.20 0.18 0.12 1/80 11206": running and all tasks are the fourth.
  const std::vector<std::string_view> fields = Split(Trim(loadavg), ' ');
  if (fields.size() != 5) return std::nullopt;
  const size_t slash = fields[3].find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return Number(fields[3].substr(slash + 1));
}

std::optional<uint64_t> TasksOfMachine() {
  const Result<std::string> text = ReadText("/proc/loadavg", kLongestLine);
  return text.ok() ? ParseTasksOfMachine(*text) : std::nullopt;
}

uint64_t OwnMemory(pid_t process) {
  const Result<std::string> text =
      ReadText("/proc/" + std::to_string(process) + "/statm", kLongestLine);
  if (!text.ok()) return 0;
  // In pages: all, resident, shared, ...
  const std::vector<std::string_view> fields = Split(Trim(*text), ' ');
  if (fields.size() < 3) return 0;
  const auto resident = Number(fields[1]);
  const auto shared = Number(fields[2]);
  if (!resident || !shared || *shared > *resident) return 0;
  return (*resident - *shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace longhaul::io
