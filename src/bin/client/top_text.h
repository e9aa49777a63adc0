// The picture of `longhaul top`: the answer of GET /v1/view/cluster as lines. Pure.
#pragma once

#include <string>
#include <vector>

#include "bin/client/client.h"

namespace longhaul::bin::client {

struct TopSize {
  size_t columns = 80;
  size_t rows = 24;  // 0: as many as there is to show
};

// Returns the lines of the picture, of at most that size: queues, jobs that run, jobs that wait
// with the reason, and nodes that are not ready. Where the rows do not suffice, each part gets a
// share and states how many rows are missing. `notice` is shown below the first line; may be empty.
std::vector<std::string> TopLines(const Json& view, const TopSize& size, const std::string& notice);

}  // namespace longhaul::bin::client
