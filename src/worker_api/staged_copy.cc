#include "worker_api/staged_copy.h"

#include <utility>

namespace longhaul::worker_api {

StagedCopy::StagedCopy(std::unique_ptr<checkpoint::ArenaWriter> writer,
                       std::vector<std::span<const std::byte>> tensors, size_t threads,
                       std::function<Status()> ready)
    : writer_(std::move(writer)), tensors_(std::move(tensors)), threads_(threads) {
  thread_ = std::thread([this, ready = std::move(ready)] {
    status_ = Copy(ready);
    done_ = true;
  });
}

StagedCopy::~StagedCopy() { (void)Finish(); }

Status StagedCopy::Finish() {
  if (thread_.joinable()) thread_.join();
  return status_;
}

Status StagedCopy::Copy(const std::function<Status()>& ready) {
  if (ready) RETURN_IF_ERROR(ready());
  writer_->WriteAll(tensors_, threads_);
  writer_->Seal();
  return {};
}

}  // namespace longhaul::worker_api
