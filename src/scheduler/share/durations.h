// How long a job will run: its user's limit, else what like jobs took.
//
// "Like" goes from near to far: the same owner, queue and size; the same queue and size; the same
// size; any job. The nearest group with enough finished jobs answers, by quantiles of its newest
// ones (Tsafrir, Etsion and Feitelson, TPDS 2007, show that recent history predicts better than
// users). A job that outlives its prediction is taken to live as long as the like jobs that also
// did; if it has outlived them all, for twice as long as it has. One that outlives its user's limit
// is taken to live for a quarter longer than it has.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace longhaul::scheduler::share {

struct JobLikeness {
  std::string owner;
  std::string queue;
  int64_t size = 0;  // thousandths of GPUs
};

struct ExpectedDuration {
  Duration median{};
  Duration high{};  // nine of ten like jobs end before; the user's limit where there is one
  bool from_user = false;
  size_t like_jobs = 0;
};

class Durations {
 public:
  void Observe(const JobLikeness& job, Duration ran);

  // What to expect of a job that has run for `elapsed`: whole lives, never below `elapsed`.
  // `user_limit` absent: by like jobs, 30 minutes when there is none. `longest`: the job is ended
  // once it has run for so long, so nothing longer is expected; one that is about to be ended gets
  // a minute.
  ExpectedDuration Expect(const JobLikeness& job, std::optional<Duration> user_limit,
                          Duration elapsed, std::optional<Duration> longest = {}) const;

 private:
  ExpectedDuration ExpectUnlimited(const JobLikeness& job, std::optional<Duration> user_limit,
                                   Duration elapsed) const;
  static constexpr size_t kWindow = 64;  // newest jobs of a group
  struct Group {
    std::vector<int64_t> ring;  // by arrival
    size_t next = 0;
    std::vector<int64_t> sorted;
  };
  using Key = std::string;
  static std::array<Key, 4> Keys(const JobLikeness& job);

  std::map<Key, Group> groups_;
};

}  // namespace longhaul::scheduler::share
