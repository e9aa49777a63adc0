// The script of exchanges that the double and the real API server both answer.
//
// It covers what Longhaul uses: lists with pages, streaming lists, watches that resume, expired
// versions, binding and each of its refusals, gates, patches of three kinds, server-side apply with
// conflicts, status, deletion with preconditions, eviction with a disruption budget, leases. The
// recorded transcript of the real server is testdata/transcript.txt.
#pragma once

#include <string>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

// Runs the script and returns the transcript. Requires a server without nodes, and an empty
// namespace "default". Blocks; `loop` must be the client's. kDeadlineExceeded when an answer does
// not come in time.
Result<std::string> RunExchanges(io::EventLoop& loop, Client& client);

}  // namespace longhaul::engines::kubernetes
