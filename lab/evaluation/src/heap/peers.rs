//! What others measure at: from the public artifact of vNV-Heap (LCTES 2025), on a host, with the
//! same counters and workloads.

use super::times;
use crate::Figures;

/// Key and number. `vnv` is the artifact's heap, `managed_S` its page-wise manager with pages of
/// `S` bytes, `vnv_modules` its swapping of modules.
const PEERS: &[(&str, f64)] = &[
    ("vnv.get_resident_1.ir", 111.0),
    ("vnv.get_resident_400.ir", 8_486.0),
    ("vnv.retrieval_best_32.ir", 111.0),
    ("vnv.retrieval_best_256.ir", 111.0),
    ("vnv.retrieval_best_1024.ir", 111.0),
    ("vnv.retrieval_bad_32.ir", 370.0),
    ("vnv.retrieval_bad_256.ir", 389.0),
    ("vnv.retrieval_bad_1024.ir", 478.0),
    ("vnv.retrieval_worst_32.ir", 1_154.0),
    ("vnv.retrieval_worst_256.ir", 1_173.0),
    ("vnv.retrieval_worst_1024.ir", 1_238.0),
    ("vnv.get_mut_evict_1024.ir", 1_238.0),
    ("vnv_modules.retrieval_best.ir", 65.0),
    ("vnv_modules.retrieval_bad.ir", 216.0),
    ("vnv_modules.retrieval_worst.ir", 380.0),
    ("vnv.fifo_10.bytes_written", 0.0),
    ("vnv.fifo_16.bytes_written", 279.0),
    ("vnv.fifo_20.bytes_written", 279.0),
    ("vnv.fifo_30.bytes_written", 279.0),
    ("vnv.fifo_60.bytes_written", 279.0),
    ("vnv.fifo_120.bytes_written", 279.0),
    ("vnv.kv_uniform.bytes_written", 225.05),
    ("vnv.kv_uniform.ir", 7_688.0),
    ("vnv.kv_sequential.bytes_written", 224.50),
    ("vnv.kv_sequential.ir", 8_707.0),
    ("vnv.kv_unequal.bytes_written", 234.48),
    ("vnv.kv_unequal.ir", 8_508.0),
    ("vnv.kv_partitioned.bytes_written", 198.59),
    ("vnv.kv_partitioned.ir", 7_446.0),
    ("managed_32.kv_uniform.bytes_written", 195.48),
    ("managed_32.kv_uniform.ir", 2_985.0),
    ("managed_32.kv_sequential.bytes_written", 231.10),
    ("managed_32.kv_sequential.ir", 2_734.0),
    ("managed_32.kv_unequal.bytes_written", 185.40),
    ("managed_32.kv_unequal.ir", 3_764.0),
    ("managed_32.kv_partitioned.bytes_written", 34.16),
    ("managed_32.kv_partitioned.ir", 1_605.0),
    ("managed_64.kv_uniform.bytes_written", 204.93),
    ("managed_64.kv_uniform.ir", 2_071.0),
    ("managed_64.kv_sequential.bytes_written", 231.01),
    ("managed_64.kv_sequential.ir", 1_910.0),
    ("managed_64.kv_unequal.bytes_written", 192.35),
    ("managed_64.kv_unequal.ir", 2_844.0),
    ("managed_64.kv_partitioned.bytes_written", 33.30),
    ("managed_64.kv_partitioned.ir", 1_346.0),
    ("managed_256.kv_uniform.bytes_written", 318.80),
    ("managed_256.kv_uniform.ir", 1_538.0),
    ("managed_256.kv_sequential.bytes_written", 230.96),
    ("managed_256.kv_sequential.ir", 1_353.0),
    ("managed_256.kv_unequal.bytes_written", 290.56),
    ("managed_256.kv_unequal.ir", 2_310.0),
    ("managed_256.kv_partitioned.bytes_written", 33.79),
    ("managed_256.kv_partitioned.ir", 1_187.0),
    ("managed_512.kv_uniform.bytes_written", 502.78),
    ("managed_512.kv_uniform.ir", 1_504.0),
    ("managed_512.kv_sequential.bytes_written", 231.01),
    ("managed_512.kv_sequential.ir", 1_270.0),
    ("managed_512.kv_unequal.bytes_written", 448.97),
    ("managed_512.kv_unequal.ir", 2_273.0),
    ("managed_512.kv_partitioned.bytes_written", 36.30),
    ("managed_512.kv_partitioned.ir", 1_164.0),
    ("vnv.ram_per_resident", 20.0),
    ("vnv.ram_per_handle", 8.0),
    ("vnv.usable_8", 0.270),
    ("vnv.usable_32", 0.578),
    ("vnv.usable_64", 0.719),
    ("vnv.usable_128", 0.812),
    ("vnv.usable_256", 0.875),
    ("vnv.usable_512", 0.875),
    ("vnv.persist_worst_512", 293.0),
    ("vnv.persist_worst_1024", 803.0),
    ("vnv.persist_worst_2048", 1_831.0),
    ("vnv.persist_worst_3072", 2_842.0),
    ("vnv.persist_worst_4096", 3_826.0),
];

/// Ours and theirs, with the modelled times.
pub fn with(figures: &Figures) -> Figures {
    let mut all = figures.clone();
    times::add(&mut all);
    all.extend(PEERS.iter().map(|(k, v)| ((*k).to_owned(), *v)));
    all
}
