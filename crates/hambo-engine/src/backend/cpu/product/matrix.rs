//! Views of matrices and of parts of them.

use std::marker::PhantomData;

/// A view of a row-major matrix, or of its transpose.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "matrix size");
        Matrix { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    pub fn transposed(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub fn is_within(&self) -> bool {
        let last = |n: usize, stride: usize| n.saturating_sub(1) * stride;
        last(self.rows, self.row_stride) + last(self.columns, self.column_stride) < self.data.len()
            || self.rows == 0
    }

    pub fn columns(self, first: usize, n: usize) -> Self {
        assert!(first + n <= self.columns, "column range");
        Matrix { data: &self.data[first * self.column_stride..], columns: n, ..self }
    }
}

/// A patch of a product: some columns of some rows.
pub struct Patch<'a> {
    /// Its first row and column.
    pub first: [usize; 2],
    size: [usize; 2],
    stride: usize,
    data: *mut f32,
    lifetime: PhantomData<&'a mut [f32]>,
}

impl<'a> Patch<'a> {
    /// # Safety
    /// `data` must be valid for reads and writes at row · stride + column for all of its rows and columns, and
    /// nobody else may use these elements meanwhile.
    pub unsafe fn new(first: [usize; 2], size: [usize; 2], data: *mut f32, stride: usize) -> Self {
        Patch { first, size, stride, data, lifetime: PhantomData }
    }

    /// All rows of a row-major matrix.
    pub fn all(data: &'a mut [f32], columns: usize) -> Self {
        // SAFETY: as many whole rows as there are.
        unsafe { Patch::new([0, 0], [data.len() / columns, columns], data.as_mut_ptr(), columns) }
    }

    /// Its rows: their numbers in the product, and their elements.
    #[inline(always)]
    pub fn rows(&mut self) -> impl Iterator<Item = (usize, &mut [f32])> {
        let Patch { first, size, stride, data, .. } = *self;
        // SAFETY: rows do not overlap; the elements are ours by the promise made to `new`.
        let row = move |r: usize| unsafe {
            std::slice::from_raw_parts_mut(data.add(r * stride), size[1])
        };
        (0..size[0]).map(move |r| (first[0] + r, row(r)))
    }
}
