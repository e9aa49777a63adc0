// The processes of the machine, to count those of a job where it has no control group.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace longhaul::io {

struct ProcessRow {
  pid_t process = 0;
  pid_t parent = 0;
  pid_t session = 0;
  uint64_t threads = 0;
  bool still = false;  // it is stopped or has ended: it starts no others

  friend bool operator==(const ProcessRow&, const ProcessRow&) = default;
};

// Reads the text of /proc/PID/stat; nothing when it is not one.
std::optional<ProcessRow> ParseProcessRow(std::string_view stat);

// All processes that this process can see, those that have ended but were not reaped too. Reads
// two system calls' worth for each: milliseconds for a thousand.
std::vector<ProcessRow> ListProcesses();

// The rows of `roots`, of their descendants, and of all processes in sessions that they lead.
std::vector<ProcessRow> RowsBelow(const std::vector<ProcessRow>& rows,
                                  const std::set<pid_t>& roots);

// The number of processes and threads of the machine, as /proc/loadavg has it: one read. Nothing
// for a text that is not of that form.
std::optional<uint64_t> ParseTasksOfMachine(std::string_view loadavg);
std::optional<uint64_t> TasksOfMachine();

// The memory that the process does not share with others; 0 when it has ended.
uint64_t OwnMemory(pid_t process);

}  // namespace longhaul::io
