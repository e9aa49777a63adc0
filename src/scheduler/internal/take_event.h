// How events change the books.
#pragma once

#include "scheduler/event.h"
#include "scheduler/internal/books.h"

namespace longhaul::scheduler::internal {

// Takes one event at books.now. What makes no sense changes nothing.
void TakeEvent(Books& books, const Event& event);

// Whether the request could start with nothing else running; the reason and the largest size that
// could, if not. The books learn of its shapes.
Status CheckFits(Books& books, const JobRequest& request);

// Health that returns with time, and suspects that have earned their readiness.
void HealNodes(Books& books);

}  // namespace longhaul::scheduler::internal
