// Which processes belong to one that this process has started.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace longhaul::io {

// Whether `process` is `root`, one of its descendants, or in the session that `root` leads. A
// process cannot enter the session of another one. Where `root` does not lead a session, only
// itself and its descendants belong to it.
bool BelongsTo(pid_t process, pid_t root);

// The children of this process, also those that ended and were not reaped. Of a subreaper
// (BecomeSubreaper) these include the orphans among its descendants.
std::vector<pid_t> OwnChildren();

// Whether the environment with which the process was started has `entry` ("NAME=VALUE") in its
// first 256 KiB. False for a process of another user and for one that has ended.
bool StartedWith(pid_t process, const std::string& entry);
// Whether a living process has no environment, as while it is replacing its program (execve): what
// it has been started with can be read a moment later.
bool HasNoEnvironment(pid_t process);

}  // namespace longhaul::io
