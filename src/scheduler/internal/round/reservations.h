// The passes that promise a time and a domain to the first blocked gangs of each queue.
//
// internal/planning.h describes the model and computes one reservation. This class chooses the jobs
// that hold one: at most Policy::reservations of each queue, the first in its order.
#pragma once

#include "scheduler/internal/round/round_context.h"

namespace longhaul::scheduler::internal {

class Reservations {
 public:
  // `context` outlives this.
  explicit Reservations(RoundContext& context) : context_(context) {}

  // Plans the reservations anew whose time has passed without a start, and all of them once per
  // Policy::replan_period. One that still lies in the future is replaced only by one that is
  // earlier by at least Policy::reservation_gain.
  void Refresh();

  // Plans a reservation for a waiting job that has none, and adds a kReserve. If the queue holds
  // its maximum, the last of its holders loses its reservation, or, if `job` would be behind all of
  // them, nothing happens. A recent promise that a job of the same line has left is reused.
  void Reserve(JobEntry& job);

  // Plans reservations for further jobs of the lines whose first job is blocked, up to the maximum
  // of each queue.
  void Fill();

  // Withdraws the reservations of jobs that the limits of their users do not let start now: they
  // would keep nodes free in vain.
  void WithdrawForUsers();

 private:
  // Whether the limits of the job's user admit it beside the user's jobs that run and those that
  // hold reservations.
  bool UserAdmits(const JobEntry& job);
  void Publish(const Reservation& reservation);
  void Withdraw(JobNumber job);

  RoundContext& context_;
};

}  // namespace longhaul::scheduler::internal
