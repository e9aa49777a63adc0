// One domain's part of a victim search: jobs and pieces that hold something there, and its hosts.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "scheduler/victims/victim_search.h"

namespace longhaul::scheduler::internal {

constexpr int64_t kNoCost = std::numeric_limits<int64_t>::max() / 4;

struct Cover {
  struct CoverJob {
    int32_t global = 0;
    int64_t cost = 0;
    int32_t max_shrunk = 0;
    bool may_stop = true;
    std::vector<int32_t> pieces;
  };
  struct Piece {
    int32_t global = 0;
    int32_t job = 0;
    int64_t shrink_cost = -1;
  };
  struct Host {
    int32_t first_unit = 0;
    int32_t last_unit = 0;
    int64_t loose = 0;
    int32_t most = 1;
  };

  Cover(std::span<const VictimJob> all_jobs, std::span<const VictimPiece> all_pieces,
        const VictimDomain& domain);

  std::span<const int32_t> Holders(size_t unit) const {
    return std::span(holders).subspan(
        static_cast<size_t>(first_holder[unit]),
        static_cast<size_t>(first_holder[unit + 1] - first_holder[unit]));
  }
  // Slots that a host has more when this much of it is free beside what was.
  int32_t SlotsOf(const Host& host, int64_t gone) const {
    const int64_t slots = (host.loose + gone) / each;
    return slots < host.most ? static_cast<int32_t>(slots) : host.most;
  }
  // Every unit of the host is a slot of its own.
  bool Plain(const Host& host) const {
    return host.last_unit - host.first_unit == 1 && host.loose == 0 && host.most == 1 &&
           weights[static_cast<size_t>(host.first_unit)] == each;
  }

  int32_t need = 0;
  std::vector<CoverJob> jobs;
  std::vector<Piece> pieces;
  std::vector<int32_t> first_holder;
  std::vector<int32_t> holders;  // pieces of this cover
  std::vector<int64_t> weights;  // [unit]
  std::vector<Host> hosts;
  int64_t each = 1;

 private:
  void AddHosts(const VictimDomain& domain);
};

// Who is gone: whole jobs and single pieces.
struct Selection {
  std::vector<uint8_t> whole;
  std::vector<uint8_t> shrunk;
  int64_t cost = kNoCost;

  static Selection Nobody(const Cover& cover);
  bool Gone(const Cover& cover, int32_t piece) const {
    return shrunk[static_cast<size_t>(piece)] != 0 ||
           whole[static_cast<size_t>(cover.pieces[static_cast<size_t>(piece)].job)] != 0;
  }
  int32_t Freed(const Cover& cover) const;
  std::vector<Victim> Victims(const Cover& cover, std::span<const VictimJob> jobs) const;
};

// Components of jobs that share hosts, directly or through others.
struct Component {
  std::vector<int32_t> jobs;
  std::vector<int32_t> hosts;
};
std::vector<Component> Components(const Cover& cover);

}  // namespace longhaul::scheduler::internal
