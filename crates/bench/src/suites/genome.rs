//! Genomes and what sequencers make of them: the same of the same seed, on any machine.
//!
//! Bases are drawn evenly and on their own, which is harder to compress and easier to align than
//! nature's. What depends on nature's own repeats is not measured with these.

use std::io::{self, Write};
use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};

use crate::program::Program;
use crate::suite::{BenchError, Stop};

const BASES: &[u8; 4] = b"ACGT";

/// Chromosomes of one length, each made anew whenever it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Genome {
    pub(crate) seed: u64,
    pub(crate) chromosomes: u64,
    pub(crate) bases_each: usize,
}

/// A source of random numbers for the thing called `number`, of its own.
pub(crate) fn random(seed: u64, number: u64) -> StdRng {
    // The golden ratio's step of splitmix64 keeps neighbours apart.
    StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

impl Genome {
    pub(crate) fn bases(&self) -> u64 {
        self.chromosomes * self.bases_each as u64
    }

    pub(crate) fn chromosome(&self, number: u64) -> Vec<u8> {
        let mut random = random(self.seed, number);
        let mut bases = Vec::with_capacity(self.bases_each + 32);
        while bases.len() < self.bases_each {
            let word = random.next_u64();
            bases.extend((0..32).map(|at| BASES[(word >> (2 * at)) as usize & 3]));
        }
        bases.truncate(self.bases_each);
        bases
    }

    /// Writes all of it as FASTA, and calls `step` after each chromosome.
    pub(crate) fn write_fasta(&self, to: &mut dyn Write, step: &dyn Fn()) -> io::Result<()> {
        for number in 0..self.chromosomes {
            writeln!(to, ">s{number}")?;
            to.write_all(&self.chromosome(number))?;
            to.write_all(b"\n")?;
            step();
        }
        Ok(())
    }
}

/// A copy in which one base of `each` is another one, on the average.
pub(crate) fn mutated(bases: &[u8], each: u32, random: &mut StdRng) -> Vec<u8> {
    let mut changed = |base: &u8| match random.random_ratio(1, each) {
        true => *BASES.choose(random).unwrap_or(base),
        false => *base,
    };
    bases.iter().map(&mut changed).collect()
}

/// The other strand, read in its own direction.
pub(crate) fn reverse_complement(bases: &[u8]) -> Vec<u8> {
    let complement = |base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        b'T' => b'A',
        other => *other,
    };
    bases.iter().rev().map(complement).collect()
}

/// Genes of nature that come with Debian's BLAST (matK and rbcL of 64 plants), as FASTA.
pub(crate) fn real_genes(stop: &Stop) -> Result<Vec<u8>, BenchError> {
    let mut genes = Vec::new();
    for name in ["matK", "rbcL"] {
        let db = format!("/usr/share/ncbi/data/64-{name}-FINAL-aligned-DNA.fas");
        let asked = Program::new("blastdbcmd", "ncbi-blast+").args(["-entry", "all", "-db", &db]);
        genes.extend(asked.run(stop)?.stdout);
    }
    Ok(genes)
}

/// The genome of the lambda virus that comes with Debian's Bowtie 2, as FASTA; `None` without it.
pub(crate) fn real_virus(stop: &Stop) -> Result<Option<Vec<u8>>, BenchError> {
    let path = Path::new("/usr/share/doc/bowtie2/examples/reference/lambda_virus.fa.gz");
    if !path.exists() {
        return Ok(None);
    }
    let unpacked = Program::new("gzip", "gzip").arg("-dc").arg(path).run(stop)?;
    Ok(Some(unpacked.stdout))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const GENOME: Genome = Genome { seed: 1, chromosomes: 3, bases_each: 1001 };

    #[test]
    fn a_seed_gives_one_genome() {
        assert_eq!(GENOME.chromosome(2), GENOME.chromosome(2));
        assert_ne!(GENOME.chromosome(1), GENOME.chromosome(2));
        assert_ne!(GENOME.chromosome(1), Genome { seed: 2, ..GENOME }.chromosome(1));
        let mut fasta = Vec::new();
        let steps = Cell::new(0);
        GENOME.write_fasta(&mut fasta, &|| steps.set(steps.get() + 1)).unwrap();
        assert_eq!(steps.get(), 3);
        let lines: Vec<_> = fasta.split(|byte| *byte == b'\n').collect();
        assert_eq!((lines[2], lines[3]), (&b">s1"[..], &GENOME.chromosome(1)[..]));
        assert_eq!((GENOME.bases(), lines[3].len()), (3003, 1001));
    }

    #[test]
    fn every_base_is_as_frequent_as_any_other() {
        let bases = Genome { bases_each: 100_000, ..GENOME }.chromosome(0);
        for base in BASES {
            let count = bases.iter().filter(|have| *have == base).count();
            assert!((24_000..26_000).contains(&count), "{count} of {base}");
        }
    }

    #[test]
    fn mutations_are_few_and_strands_fit() {
        let bases = GENOME.chromosome(0);
        let changed = mutated(&bases, 20, &mut random(1, 1));
        let differ = bases.iter().zip(&changed).filter(|(a, b)| a != b).count();
        assert!((10..80).contains(&differ), "{differ} differ");
        assert_eq!(reverse_complement(b"AACGN"), b"NCGTT");
        assert_eq!(reverse_complement(&reverse_complement(&bases)), bases);
    }
}
