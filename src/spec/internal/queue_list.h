// The list of queues inside another file.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/internal/document.h"
#include "spec/queue/queue.h"

namespace longhaul::spec::internal {

// Reads and checks the value of a key `queues`. `source` names the text in messages.
Result<std::vector<QueueSpec>> ReadQueueList(const Node& list, std::string_view source);

}  // namespace longhaul::spec::internal
