#include "runtime/controller/job/write_shares.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime {

// A rank whose node reported no content (plan and root are 0) is equal to no other rank, so its
// state is always written.
std::vector<uint32_t> FirstAlike(const RankContents& contents) {
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> first;
  std::vector<uint32_t> alike(contents.size());
  for (uint32_t rank = 0; rank < contents.size(); ++rank) {
    const proto::RankContent& content = contents[rank];
    const bool known = content.plan() != 0 || content.root() != 0;
    alike[rank] =
        known ? first.emplace(std::pair(content.plan(), content.root()), rank).first->second : rank;
  }
  return alike;
}

// The largest pieces first, each to the least loaded of the nodes that hold it: the usual greedy
// rule for balanced loads. The sort is stable and ties go to the lowest rank, so that a replay
// deals the same shares. `load` is by node.
std::vector<std::vector<uint32_t>> ShareOut(const RankContents& contents, uint32_t ranks_per_node) {
  CHECK(ranks_per_node >= 1 && contents.size() % ranks_per_node == 0);
  const std::vector<uint32_t> alike = FirstAlike(contents);
  std::vector<std::vector<uint32_t>> holders(contents.size());  // by the first of each kind
  for (uint32_t rank = 0; rank < alike.size(); ++rank) holders[alike[rank]].push_back(rank);
  std::vector<uint32_t> kinds;
  for (uint32_t rank = 0; rank < alike.size(); ++rank) {
    if (!holders[rank].empty()) kinds.push_back(rank);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [&contents](uint32_t a, uint32_t b) {
    return contents[a].bytes() > contents[b].bytes();
  });
  std::vector<std::vector<uint32_t>> shares(contents.size() / ranks_per_node);
  std::vector<std::pair<uint64_t, size_t>> load(shares.size());  // bytes, pieces
  for (const uint32_t kind : kinds) {
    const uint32_t writer =
        *std::min_element(holders[kind].begin(), holders[kind].end(), [&](uint32_t a, uint32_t b) {
          return load[a / ranks_per_node] < load[b / ranks_per_node];
        });
    auto& [bytes, pieces] = load[writer / ranks_per_node];
    bytes += contents[kind].bytes();
    ++pieces;
    shares[writer / ranks_per_node].push_back(writer);
  }
  for (std::vector<uint32_t>& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

// Of several written files with the same state the one of the lowest rank serves the others, so
// that the manifest does not depend on the order of the reports.
std::vector<std::vector<uint32_t>> AlsoServed(const RankContents& contents,
                                              const std::vector<uint32_t>& written) {
  const std::vector<uint32_t> alike = FirstAlike(contents);
  std::vector<bool> has_file(contents.size());
  std::map<uint32_t, size_t> server;  // by kind, the place of the lowest rank that is written
  for (size_t i = 0; i < written.size(); ++i) {
    CHECK(written[i] < contents.size());
    has_file[written[i]] = true;
    const auto [found, added] = server.emplace(alike[written[i]], i);
    if (!added && written[i] < written[found->second]) found->second = i;
  }
  std::vector<std::vector<uint32_t>> also(written.size());
  for (uint32_t rank = 0; rank < contents.size(); ++rank) {
    const auto found = server.find(alike[rank]);
    if (!has_file[rank] && found != server.end()) also[found->second].push_back(rank);
  }
  return also;
}

}  // namespace longhaul::runtime
