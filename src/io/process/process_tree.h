// Which processes belong to one that this process has started.
#pragma once

#include <sys/types.h>

namespace longhaul::io {

// Whether `process` is `root`, one of its descendants, or in the session that `root` leads. A
// process cannot enter the session of another one. Where `root` does not lead a session, only
// itself and its descendants belong to it.
bool BelongsTo(pid_t process, pid_t root);

}  // namespace longhaul::io
