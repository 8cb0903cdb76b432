// attend_codes with head_dim 256.
#include "cuda/attend_launch.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<256>(const Bulks& bulks, const AttendLaunch& how) {
  launch_heads<8, 256>(bulks, how);
}

}  // namespace kvc::KVC_DEVICE
